import { createHash } from 'node:crypto';
import {
  OwnerDocumentError,
  DOCUMENT_LIFETIMES_MS,
  resolveOwners,
  parseDocument,
  signDocument,
  subjectOf,
  verifyDocument,
  type DocumentBodies,
  type DocumentKind,
  type OwnerSet,
  type VerifiedDocument,
} from '../../internal/ownerdocument/index.ts';
import { RpcError } from '../../internal/rpc/index.ts';
import type {
  ListDocumentsResponse,
  RemovedMachine,
} from '../../joinservice/curatorproto/gen/operatorapi_pb.js';
import type { CommandContext } from '../app/command.ts';
import { callCurator, readCaller, saveKnownCurators, type Caller } from '../cluster/index.ts';

/**
 * Opens a signer for the calling owner; undefined if the caller is not an owner, or the curator too old for owner documents.
 * The documents on record are verified before anything is derived from them.
 */
export async function openSigner(context: CommandContext): Promise<DocumentSigner | undefined> {
  const member = await readCaller(context);
  if (!member.isOwner) return undefined;
  const known = await askForDocuments(context);
  if (known === undefined) return undefined;
  const { epoch } = known;
  await saveKnownCurators(context.ports.files, member.curatorsPath, { epoch, directory: [] });
  const signer = new DocumentSigner(member, known, context.ports.clock.nowMs());
  return signer.owners.includes(signer.ownKey) ? signer : undefined;
}

/** Signs a policy document over the exact bytes of a configuration; none without a signer. */
export function policyFor(signer: DocumentSigner | undefined, configuration: Uint8Array): Uint8Array[] {
  if (signer === undefined) return [];
  const configurationSha256 = createHash('sha256').update(configuration).digest('hex');
  return [signer.sign('policy', { configurationSha256 })];
}

/** Signs the settings that joining machines get; none where the curator is too old to return them. */
export function settingsFor(signer: DocumentSigner): Uint8Array[] {
  if (signer.settings.length === 0) return [];
  return [
    signer.sign('settings', { settingsSha256: createHash('sha256').update(signer.settings).digest('hex') }),
  ];
}

async function askForDocuments(context: CommandContext): Promise<ListDocumentsResponse | undefined> {
  try {
    return await callCurator(context, ({ operatorApi }) => operatorApi.listDocuments({}));
  } catch (error) {
    if (error instanceof RpcError && error.code === 'rpc-not-served') return undefined;
    throw error;
  }
}

/** The epoch of a cluster that was never recovered or restored. */
const FIRST_EPOCH = 1;
/**
 * A recovery of the quorum may lose documents that nodes have already accepted, and nodes refuse other documents with
 * the same serials. So the first document of each kind and subject in a new epoch skips this many serials: more than
 * owners sign between two copies of etcd. The kind `owners` has no gap: each set of owners follows from the one before,
 * and curators accept only the next serial.
 */
const MAX_LOST_SERIALS = 1_000;

/** Signs documents with the key of the calling owner and the next serial. */
export class DocumentSigner {
  /** Raw Ed25519, base64. */
  readonly ownKey: string;
  /** Raw Ed25519 keys of the current owners, base64. */
  readonly owners: readonly string[];
  readonly removed: readonly RemovedMachine[];
  /** The settings on record (canonical JSON), which no owner may have signed; empty from curators of older releases. */
  readonly settings: Uint8Array;
  /** Documents that current owners have signed, the newest of each kind and subject. */
  readonly documents: readonly VerifiedDocument<DocumentKind>[];
  readonly #member: Caller;
  readonly #epoch: number;
  readonly #nowMs: number;
  /** By kind and subject: the highest serial number and the newest epoch of all documents that any owner has signed. */
  readonly #serials = new Map<string, { readonly serial: number; readonly epoch: number }>();

  constructor(member: Caller, known: ListDocumentsResponse, nowMs: number) {
    const own = member.pubKey;
    this.ownKey = base64Of(own);
    this.removed = known.removed;
    this.settings = known.settings;
    this.#member = member;
    this.#epoch = Math.max(1, Number(known.epoch));
    this.#nowMs = nowMs;
    const { set, ever } = this.#ownersIn(known.documents, member.vouchers[0]?.by ?? own);
    this.owners = set.keys.map(base64Of);
    for (const { kind, serial, epoch, body } of this.#verified(known.documents, ever))
      this.#count(kind, body, { serial, epoch });
    this.documents = this.#verified(known.documents, set.keys);
  }

  /**
   * @param endsMs end of validity; given only when a document is signed again, which must not make it valid
   * for longer
   */
  sign<K extends DocumentKind>(kind: K, body: DocumentBodies[K], endsMs?: number): Uint8Array {
    const issuedMs = this.#nowMs;
    const before = this.#serials.get(serialKeyOf(kind, body)) ?? { serial: 0, epoch: FIRST_EPOCH };
    const isFirst = kind !== 'owners' && before.epoch < this.#epoch;
    const serial = before.serial + (isFirst ? MAX_LOST_SERIALS : 1);
    this.#count(kind, body, { serial, epoch: this.#epoch });
    const content = {
      ...{ kind, clusterId: this.#member.clusterId, epoch: this.#epoch, serial, issuedMs, body },
      endsMs: endsMs ?? issuedMs + DOCUMENT_LIFETIMES_MS[kind],
    };
    return signDocument(content, this.#member.keyPem);
  }

  newest<K extends DocumentKind>(kind: K, subject = ''): VerifiedDocument<K> | undefined {
    return this.documents.findLast(
      (each): each is VerifiedDocument<K> => each.kind === kind && subjectOf(each) === subject,
    );
  }

  #count(
    kind: DocumentKind,
    body: DocumentBodies[DocumentKind],
    { serial, epoch }: { readonly serial: number; readonly epoch: number },
  ): void {
    const key = serialKeyOf(kind, body);
    const before = this.#serials.get(key) ?? { serial: 0, epoch: 0 };
    this.#serials.set(key, {
      serial: Math.max(serial, before.serial),
      epoch: Math.max(epoch, before.epoch),
    });
  }

  /**
   * Verifies the chain of documents that list the owners, from the first owner on. The key of the first owner
   * does not come from the curator.
   */
  #ownersIn(documents: readonly Uint8Array[], first: Uint8Array) {
    const start: OwnerSet = { keys: [first], floor: undefined };
    const chain = documents
      .filter((bytes) => parseDocument(bytes).kind === 'owners')
      .sort((a, b) => parseDocument(a).serial - parseDocument(b).serial);
    const links = chain.map((_, index) => resolveOwners(start, chain.slice(0, index + 1), this.#trust()));
    const ever = [start, ...links].flatMap(({ keys }) => keys);
    return { set: links.at(-1) ?? start, ever };
  }

  #verified(
    documents: readonly Uint8Array[],
    owners: readonly Uint8Array[],
  ): readonly VerifiedDocument<DocumentKind>[] {
    return documents.flatMap((bytes) => {
      try {
        const { kind } = parseDocument(bytes);
        const expected = { ...this.#trust(), owners, kind, epoch: 1, floor: undefined, acceptExpired: true };
        return [verifyDocument(bytes, expected)];
      } catch (error) {
        if (error instanceof OwnerDocumentError) return []; // an invalid document has no effect
        throw error;
      }
    });
  }

  #trust() {
    return { clusterId: this.#member.clusterId, epoch: this.#epoch, nowMs: this.#nowMs };
  }
}

function serialKeyOf(kind: DocumentKind, body: DocumentBodies[DocumentKind]): string {
  return `${kind}/${subjectOf({ body })}`;
}

function base64Of(raw: Uint8Array): string {
  return Buffer.from(raw).toString('base64');
}
