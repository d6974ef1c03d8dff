import { parseDocument } from './owner-document.ts';
import { floorOf, verifyDocument, type DocumentTrust, type Floor } from './verify-document.ts';

/** Who the owners are, and after which `owners` document. */
export interface OwnerSet {
  /** Raw Ed25519. */
  readonly keys: readonly [Uint8Array, ...Uint8Array[]];
  /** The document that says so; undefined while the provisioning alone does. */
  readonly floor: Floor | undefined;
}

/**
 * The owners of now: each `owners` document is signed by an owner of the set before it. `start` comes from provisioning
 * or from the verifier's own disk, `documents` from anybody (etcd), in the order of their serials; those before the
 * start's own are skipped.
 * @throws AuthorityError for the first document that does not follow
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
    // A machine that was provisioned with a later owner's key cannot follow what came before that owner.
    if (now.floor === undefined && !now.keys.some((key) => Buffer.compare(key, signer) === 0)) continue;
    const next = verifyDocument(bytes, {
      ...trust,
      // A chain begins in the epoch in which the cluster was made, and an old link is no less true for its age.
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
  if (first === undefined) throw new TypeError('a set of owners is never empty');
  return [first, ...others];
}
