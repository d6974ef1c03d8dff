import {
  OwnerDocumentError,
  resolveOwners,
  parseDocument,
  subjectOf,
  verifyDocument,
  type DocumentBodies,
  type DocumentKind,
  type OwnerSet,
  type VerifiedDocument,
} from '../../internal/ownerdocument/index.ts';
import type {
  ListDocumentsResponse,
  RemovedMachine,
} from '../../joinservice/curatorproto/gen/operatorapi_pb.js';
import type { Caller } from '../cluster/index.ts';

/** The epoch of a cluster that was never recovered or restored. */
const FIRST_EPOCH = 1;
/**
 * A recovery of the quorum may lose documents that nodes have already accepted, and nodes refuse other documents with
 * the same serials. So the first document of each kind and subject in a new epoch skips this many serials: more than
 * owners sign between two copies of etcd. The kind `owners` has no gap: each set of owners follows from the one before,
 * and curators accept only the next serial.
 */
const MAX_LOST_SERIALS = 1_000;

/** The answer of a curator, or the part of it that a request file contains. Untrusted. */
export type KnownRecords = Pick<ListDocumentsResponse, 'documents' | 'removed' | 'epoch' | 'settings'>;

/** A document with its exact bytes. */
export interface StoredDocument {
  readonly bytes: Uint8Array;
  readonly document: VerifiedDocument<DocumentKind>;
}

/** The documents that owners have signed, each verified with owners that do not come from the curator. */
export class SignedRecords {
  readonly clusterId: string;
  readonly epoch: number;
  readonly nowMs: number;
  /** Raw Ed25519 keys of the current owners, base64. */
  readonly owners: readonly string[];
  readonly removed: readonly RemovedMachine[];
  /** The settings on record (canonical JSON), which no owner may have signed; empty from curators of older releases. */
  readonly settings: Uint8Array;
  /** Documents that current owners have signed, the newest of each kind and subject. */
  readonly documents: readonly VerifiedDocument<DocumentKind>[];
  /** Documents that an owner signed, who may have been removed since. */
  readonly everSigned: readonly StoredDocument[];
  /** By kind and subject: the highest serial number and the newest epoch of all documents that any owner has signed. */
  readonly #serials = new Map<string, { readonly serial: number; readonly epoch: number }>();

  /** @param first the owners who are known without the curator: the chain of `owners` documents begins with one of them */
  constructor(
    { clusterId }: Pick<Caller, 'clusterId'>,
    known: KnownRecords,
    { first, nowMs }: { readonly first: OwnerSet['keys']; readonly nowMs: number },
  ) {
    this.clusterId = clusterId;
    this.removed = known.removed;
    this.settings = known.settings;
    this.epoch = Math.max(1, Number(known.epoch));
    this.nowMs = nowMs;
    const { set, ever } = this.#ownersIn(known.documents, first);
    this.owners = set.keys.map(base64Of);
    this.everSigned = this.#verified(known.documents, ever);
    for (const { document } of this.everSigned) this.count(document.kind, document.body, document);
    this.documents = this.#verified(known.documents, set.keys).map(({ document }) => document);
  }

  newest<K extends DocumentKind>(kind: K, subject = ''): VerifiedDocument<K> | undefined {
    return this.documents
      .filter((each): each is VerifiedDocument<K> => each.kind === kind && subjectOf(each) === subject)
      .reduce<VerifiedDocument<K> | undefined>(
        (last, each) => (last === undefined || each.serial > last.serial ? each : last),
        undefined,
      );
  }

  /** The serial of the next document of this kind and subject. */
  protected nextSerial(kind: DocumentKind, body: DocumentBodies[DocumentKind]): number {
    const before = this.#serials.get(subjectKeyOf({ kind, body })) ?? { serial: 0, epoch: FIRST_EPOCH };
    const isFirst = kind !== 'owners' && before.epoch < this.epoch;
    return before.serial + (isFirst ? MAX_LOST_SERIALS : 1);
  }

  protected count(
    kind: DocumentKind,
    body: DocumentBodies[DocumentKind],
    { serial, epoch }: { readonly serial: number; readonly epoch: number },
  ): void {
    const key = subjectKeyOf({ kind, body });
    const before = this.#serials.get(key) ?? { serial: 0, epoch: 0 };
    this.#serials.set(key, {
      serial: Math.max(serial, before.serial),
      epoch: Math.max(epoch, before.epoch),
    });
  }

  /** Verifies the chain of documents that list the owners, from the first owners on. */
  #ownersIn(documents: readonly Uint8Array[], first: OwnerSet['keys']) {
    const start: OwnerSet = { keys: first, floor: undefined };
    const chain = documents
      .filter((bytes) => parseDocument(bytes).kind === 'owners')
      .sort((a, b) => parseDocument(a).serial - parseDocument(b).serial);
    const links = chain.map((_, index) => resolveOwners(start, chain.slice(0, index + 1), this.#trust()));
    const ever = [start, ...links].flatMap(({ keys }) => keys);
    return { set: links.at(-1) ?? start, ever };
  }

  #verified(documents: readonly Uint8Array[], owners: readonly Uint8Array[]): readonly StoredDocument[] {
    return documents.flatMap((bytes) => {
      try {
        const { kind } = parseDocument(bytes);
        const expected = { ...this.#trust(), owners, kind, epoch: 1, floor: undefined, acceptExpired: true };
        return [{ bytes, document: verifyDocument(bytes, expected) }];
      } catch (error) {
        if (error instanceof OwnerDocumentError) return []; // an invalid document has no effect
        throw error;
      }
    });
  }

  #trust() {
    return { clusterId: this.clusterId, epoch: this.epoch, nowMs: this.nowMs };
  }
}

/** Names the series of documents, one replacing the other, to which a document belongs. */
export function subjectKeyOf({
  kind,
  body,
}: {
  readonly kind: DocumentKind;
  readonly body: DocumentBodies[DocumentKind];
}): string {
  return `${kind}/${subjectOf({ body })}`;
}

function base64Of(raw: Uint8Array): string {
  return Buffer.from(raw).toString('base64');
}
