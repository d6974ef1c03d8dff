import { createHash } from 'node:crypto';
import {
  OwnerDocumentError,
  floorOf,
  parseDocument,
  resolveOwners,
  verifyDocument,
  type DocumentTrust,
  type Floor,
  type OwnerSet,
} from '../../internal/ownerdocument/index.ts';
import type { Entry } from '../../internal/etcd/index.ts';
import { records } from '../../internal/records/index.ts';

/** SHA-256, lower-case hex. */
export function sha256Of(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex');
}

/** The exact bytes of a stored document. @throws OwnerDocumentError `owner-document-malformed` */
export function documentBytes({ key, value }: Entry): Uint8Array {
  try {
    return new Uint8Array(Buffer.from(records.document.decode(key, value).document, 'base64'));
  } catch (cause) {
    throw new OwnerDocumentError('owner-document-malformed', `reading ${key}`, { cause });
  }
}

/** The serial and hash of the stored document if a current owner signed it; an invalid document does not block a new one. */
export function storedFloor(entry: Entry | undefined, trust: DocumentTrust): Floor | undefined {
  if (entry === undefined) return undefined;
  try {
    const bytes = documentBytes(entry);
    const { kind } = parseDocument(bytes);
    return floorOf(
      verifyDocument(bytes, { ...trust, epoch: 1, kind, floor: undefined, acceptExpired: true }),
    );
  } catch (error) {
    if (error instanceof OwnerDocumentError) return undefined;
    throw error;
  }
}

/**
 * The current owners: the stored `owners` documents form a chain that begins with the first owners.
 * @param entries all documents of kind `owners`, as they were read below `OWNERS_PREFIX`
 * @param options `seen` is the newest of these documents that the program has accepted. Without it, a removed owner
 * would become valid again if etcd hid the newest documents
 * @throws OwnerDocumentError if the chain is broken, or older than `seen`: then no document is valid
 */
export function ownersFrom(
  entries: readonly Entry[],
  firstKeys: OwnerSet['keys'],
  options: {
    readonly clusterId: string;
    readonly nowMs: number;
    readonly seen: Floor | undefined;
  },
): OwnerSet {
  const { clusterId, nowMs, seen } = options;
  const start = { keys: firstKeys, floor: undefined };
  // `epoch` is the lowest accepted epoch. It is 1, because documents of all epochs are part of the chain.
  const owners = resolveOwners(start, entries.map(documentBytes), { clusterId, epoch: 1, nowMs });
  const serial = owners.floor?.serial ?? 0;
  if (serial < (seen?.serial ?? 0))
    throw new OwnerDocumentError(
      'owner-document-serial-old',
      `verifying the owners: etcd has serial ${serial}, but serial ${seen?.serial ?? 0} was accepted before`,
    );
  return owners;
}
