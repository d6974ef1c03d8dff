import type { SignedKeys } from '../../../internal/keyset/index.ts';
import {
  OwnerDocumentError,
  verifyFromProvisioning,
  verifyNotOlder,
} from '../../../internal/ownerdocument/index.ts';
import type { Caller } from './caller.ts';
import type { WorkspaceCa } from './known-ca.ts';

/** A generation of the shared keys that an owner has signed. */
export interface SignedGeneration {
  readonly keys: SignedKeys;
  /**
   * Later documents must not be older than these. Save them together with the data that the workspace takes from this
   * generation.
   */
  readonly floors: WorkspaceCa['floors'];
}

/** What a caller knows of the cluster, and of the owners whose signatures count. */
export type SignatureTrust = Pick<Caller, 'ca' | 'clusterId' | 'epoch' | 'ownerKeys'>;

/**
 * Verifies the `keys` document of the newest generation with the owners that the caller knows and those that follow
 * from them. Refuses a document that is older than the last accepted one: an attacker who has old keys could replay it.
 * @param documents untrusted: what a curator returned
 * @throws OwnerDocumentError
 */
export function verifySignedGeneration(
  { ca, clusterId, epoch, ownerKeys: [first, ...others] }: SignatureTrust,
  documents: readonly Uint8Array[],
  nowMs: number,
): SignedGeneration {
  if (first === undefined)
    throw new OwnerDocumentError('owner-document-required', 'verifying the shared keys: no owner is known');
  const trust = { ownerKeys: [first, ...others] as const, clusterId, epoch, nowMs };
  const proven = verifyFromProvisioning('keys', documents, trust);
  verifyNotOlder(proven, { owners: ca.floors.owners, document: ca.floors.keys });
  const { serial, sha256, body } = proven.document;
  const owners = proven.owners === undefined ? {} : { owners: proven.owners };
  return { keys: body, floors: { ...ca.floors, ...owners, keys: { serial, sha256 } } };
}
