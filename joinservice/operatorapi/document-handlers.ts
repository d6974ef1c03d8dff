import type { KeySpace } from '../../internal/etcd/index.ts';
import { DOCUMENTS_PREFIX, records, REMOVED_PREFIX } from '../../internal/records/index.ts';
import type { Handlers } from '../../internal/rpc/index.ts';
import { documentBytes, type OwnerDocuments } from '../ownerdocs/index.ts';
import {
  mutationFrom,
  readCluster,
  refuseField,
  submitterOf,
  withDocuments,
  type Caller,
  type Mutations,
} from '../curator/index.ts';
import { PutDocumentsRequestSchema, type OperatorApi } from '../curatorproto/gen/operatorapi_pb.js';

/** What the handlers of owner documents work with. */
export interface DocumentHandlerParts {
  readonly etcd: KeySpace;
  readonly mutations: Mutations;
  readonly ownerDocs: OwnerDocuments;
}

/** Owner documents: every operator may read them, only owners change them. */
export function documentHandlers({
  etcd,
  mutations,
  ownerDocs,
}: DocumentHandlerParts): Pick<Handlers<typeof OperatorApi, Caller>, 'listDocuments' | 'putDocuments'> {
  return {
    listDocuments: async (_request, { signal }) => {
      const [documents, removed, cluster] = await Promise.all([
        etcd.list(DOCUMENTS_PREFIX, { signal }),
        etcd.list(REMOVED_PREFIX, { signal }),
        readCluster(etcd, signal),
      ]);
      const machines = removed.entries.map(({ key, value }) => records.removed.decode(key, value));
      return {
        documents: documents.entries.map(documentBytes),
        removed: await Promise.all(
          machines.map(async ({ version: _, removedMs, ...machine }) => ({
            ...machine,
            removedMs: BigInt(removedMs),
            readmitted:
              (await ownerDocs.whyNotReadmitted({ version: 1, removedMs, ...machine }, signal)) === undefined,
          })),
        ),
        epoch: BigInt(cluster.epoch),
      };
    },
    putDocuments: async (request, { peer, signal }) => {
      if (request.documents.length === 0) refuseField('documents', 'at least one');
      const mutation = mutationFrom(PutDocumentsRequestSchema, request, {
        peer,
        signal,
        subject: 'documents',
      });
      await mutations.run(mutation, async () => {
        const submission = await ownerDocs.submission(request.documents, submitterOf({ peer, signal }));
        return withDocuments({ when: [], then: [], detail: {} }, submission);
      });
      return {};
    },
  };
}
