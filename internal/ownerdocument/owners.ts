import { parseDocument } from './owner-document.ts';
import { floorOf, verifyDocument, type DocumentTrust, type Floor } from './verify-document.ts';

/** The owners of a cluster, and the `owners` document that names them. */
export interface OwnerSet {
  /** Raw Ed25519. */
  readonly keys: readonly [Uint8Array, ...Uint8Array[]];
  /** The last accepted `owners` document; undefined while only the provisioning names owners. */
  readonly floor: Floor | undefined;
}

/**
 * Determines the current owners. Each `owners` document is signed by an owner of the set before it.
 * @param start from provisioning or from the verifier's own disk
 * @param documents from etcd, untrusted, in the order of their serials; documents before the document of `start` are
 * skipped
 * @throws OwnerDocumentError for the first document that an owner of the set before it did not sign
 */
export function resolveOwners(
  start: OwnerSet,
  documents: readonly Uint8Array[],
  trust: Omit<DocumentTrust, 'owners'>,
): OwnerSet {
  let now = start;
  for (const bytes of documents) {
    const { serial, signer } = parseDocument(bytes);
    if (serial < (now.floor?.serial ?? 0)) continue;
    // Skips the documents before the first one that a provisioned owner signed. This machine does not know the earlier
    // owners, so it cannot verify these documents.
    if (now.floor === undefined && !now.keys.some((key) => Buffer.compare(key, signer) === 0)) continue;
    const next = verifyDocument(bytes, {
      ...trust,
      // The chain starts in the epoch in which the cluster was created, and its documents stay valid after their end.
      epoch: 1,
      acceptExpired: true,
      kind: 'owners',
      owners: now.keys,
      floor: now.floor,
    });
    now = { keys: keysFrom(next.body.keys), floor: floorOf(next) };
  }
  return now;
}

function keysFrom(texts: readonly string[]): OwnerSet['keys'] {
  const [first, ...others] = texts.map((text) => new Uint8Array(Buffer.from(text, 'base64')));
  if (first === undefined) throw new TypeError('the set of owners is empty');
  return [first, ...others];
}
