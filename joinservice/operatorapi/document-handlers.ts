import { canonicalJson } from '../../internal/crypto/index.ts';
import { parseDocument, type DocumentKind } from '../../internal/ownerdocument/index.ts';
import { DOCUMENTS_PREFIX, records, REMOVED_PREFIX, SETTINGS_KEY } from '../../internal/records/index.ts';
import { documentBytes } from '../ownerdocs/index.ts';
import {
  mutationFrom,
  readCluster,
  refuseField,
  submitterOf,
  withDocuments,
  type Caller,
} from '../curator/index.ts';
import { PutDocumentsRequestSchema, RemovedKeys } from '../curatorproto/gen/operatorapi_pb.js';
import { OperatorApiError } from './errors.ts';
import type { HandlersOf, OperatorApiParts } from './operator-api-parts.ts';

/**
 * Kinds of documents that an operator who is not an owner may store alone. Each one concerns only one machine. A document
 * of another kind could make the present record invalid, so it is stored only together with a new record.
 */
const KINDS_OF_OPERATORS: readonly DocumentKind[] = ['grant', 'readmission'];

const KEYS_TO_WIRE = {
  none: RemovedKeys.NONE,
  deleted: RemovedKeys.DELETED,
  left: RemovedKeys.LEFT,
} as const;

/** Owner documents: every operator may read them, an owner signs each change of them. */
export function documentHandlers({
  etcd,
  mutations,
  ownerDocs,
}: Pick<OperatorApiParts, 'etcd' | 'mutations' | 'ownerDocs'>): HandlersOf<'listDocuments' | 'putDocuments'> {
  return {
    listDocuments: async (_request, { signal }) => {
      const [documents, removed, cluster, settings] = await Promise.all([
        etcd.list(DOCUMENTS_PREFIX, { signal }),
        etcd.list(REMOVED_PREFIX, { signal }),
        readCluster(etcd, signal),
        records.settings.read(etcd, SETTINGS_KEY, signal),
      ]);
      const machines = removed.entries.map(({ key, value }) => records.removed.decode(key, value));
      return {
        documents: documents.entries.map(documentBytes),
        removed: await Promise.all(
          machines.map(async ({ version: _, sharedKeys, keyGeneration = 0, ...machine }) => ({
            ...machine,
            sharedKeys: sharedKeys === undefined ? RemovedKeys.UNSPECIFIED : KEYS_TO_WIRE[sharedKeys],
            keyGeneration: BigInt(keyGeneration),
            removedMs: BigInt(machine.removedMs),
            readmitted: (await ownerDocs.whyNotReadmitted(machine, signal)) === undefined,
          })),
        ),
        epoch: BigInt(cluster.epoch),
        settings:
          settings.record === undefined
            ? new Uint8Array()
            : Buffer.from(canonicalJson(settings.record), 'utf8'),
      };
    },
    putDocuments: async (request, call) => {
      if (request.documents.length === 0) refuseField('documents', 'expected at least one');
      requireKindsFor(call.peer, request.documents);
      const mutation = mutationFrom(PutDocumentsRequestSchema, request, { ...call, subject: 'documents' });
      await mutations.run(mutation, async () => {
        const submission = await ownerDocs.submission(request.documents, submitterOf(call));
        return withDocuments({ when: [], then: [], detail: {} }, submission);
      });
      return {};
    },
  };
}

/**
 * Checks the documents that an operator who is not an owner submits. An owner has signed them for this operator.
 * @throws OperatorApiError `operatorapi-document-kind`
 */
function requireKindsFor(caller: Caller, documents: readonly Uint8Array[]): void {
  if (caller.kind === 'operator' && caller.role === 'owner') return;
  const other = documents
    .map((bytes) => parseDocument(bytes).kind)
    .find((kind) => !KINDS_OF_OPERATORS.includes(kind));
  if (other !== undefined)
    throw new OperatorApiError('operatorapi-document-kind', `cannot store a document of kind ${other} alone`);
}
