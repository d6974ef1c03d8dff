import {
  areSignedClientCas,
  areSignedKeys,
  areSignedServerCas,
  ENCRYPTION_KEY,
  isPhaseAtLeast,
  LATER_KEYS,
  publicKeysOf,
  type KeySet,
  type PublicKeys,
  type SignedKeys,
} from '../../internal/keyset/index.ts';
import {
  OwnerDocumentError,
  proofFromProvisioning,
  verifyNotOlder,
  type DocumentProof,
  type ProvisionedTrust,
} from '../../internal/ownerdocument/index.ts';
import { KeyRotationError } from './errors.ts';
import type { KeyStore } from './key-store.ts';

type Floors = Pick<KeyStore, 'loadFloors' | 'saveFloors'>;

/**
 * Verifies the public keys that a curator announced. `documents` and `keys` are untrusted: a curator that was taken over, or
 * somebody with a copy of the cluster CA's key in the path to the curators, can show anything.
 * @throws KeyRotationError `keyrotation-keys-unsigned`, `keyrotation-generation-old`, `keyrotation-stage-damaged`
 */
export async function verifyAnnouncedKeys(
  store: Floors,
  keys: PublicKeys,
  from: { readonly documents: readonly Uint8Array[]; readonly trust: ProvisionedTrust },
): Promise<void> {
  const proof = proofFromProvisioning('keys', from.documents, from.trust);
  const doing = `verifying the announced keys of generation ${keys.generation}`;
  await requireSigned(store, proof, { doing, isSigned: (signed) => areSignedKeys(signed, keys) });
}

/** Verifies the shared keys in the ticket of a control plane. @throws like `verifyAnnouncedKeys()` */
export async function verifyKeySet(store: Floors, proof: DocumentProof<'keys'>, set: KeySet): Promise<void> {
  await requireSigned(store, proof, {
    doing: `verifying the keys of generation ${set.generation} in a ticket`,
    isSigned: (signed) => areSignedKeys(signed, publicKeysOf(set)) || isReplacedBy(set, signed),
  });
}

/** Verifies the CAs for clients of the kubelet in a ticket. @throws like `verifyAnnouncedKeys()` */
export async function verifyClientsCa(
  store: Floors,
  proof: DocumentProof<'keys'>,
  bundlePem: string,
): Promise<void> {
  await requireSigned(store, proof, {
    doing: 'verifying the CAs of Kubernetes clients in a ticket',
    isSigned: (signed) => areSignedClientCas(signed, bundlePem),
  });
}

/**
 * Verifies the CAs of API servers in a ticket. If no rotation of the cluster has replaced this CA, no owner has signed
 * it. Then only a machine that has no such CA yet (`isFirst`) accepts it.
 * @throws like `verifyAnnouncedKeys()`
 */
export async function verifyServersCa(
  store: Floors & Pick<KeyStore, 'loadStage'>,
  proof: DocumentProof<'keys'>,
  { bundlePem, isFirst }: { readonly bundlePem: string; readonly isFirst: boolean },
): Promise<void> {
  if (proof.kind === 'unsigned' && isFirst && (await store.loadStage()).generation === 1) return;
  await requireSigned(store, proof, {
    doing: 'verifying the CAs of API servers in a ticket',
    isSigned: (signed) => areSignedServerCas(signed, bundlePem) ?? isFirst,
  });
}

/**
 * Whether these are exactly the keys that the signed generation replaces. This is the case when an owner has signed the
 * next generation, and the control plane that issued the ticket does not have the next keys yet.
 */
function isReplacedBy(set: KeySet, { previous, ...signed }: SignedKeys): boolean {
  const { generation, phase, next, encryption } = set;
  if (generation >= signed.generation || !isPhaseAtLeast(phase, 'retire')) return false;
  const used = encryption && { ...encryption, previous: encryption.next };
  const active = publicKeysOf({ generation, phase, previous: next, next, encryption: used });
  // A rotation by an earlier version did not replace these keys, and its set does not name them.
  const kept: readonly string[] = ([ENCRYPTION_KEY, ...LATER_KEYS] as const).filter(
    (name) => active.next[name] === undefined,
  );
  const replaced = Object.fromEntries(Object.entries(previous).filter(([name]) => !kept.includes(name)));
  return areSignedKeys({ generation, previous: replaced, next: replaced }, active);
}

async function requireSigned(
  store: Floors,
  proof: DocumentProof<'keys'>,
  { doing, isSigned }: { readonly doing: string; readonly isSigned: (signed: SignedKeys) => boolean },
): Promise<void> {
  if (proof.kind === 'unsigned')
    throw new KeyRotationError('keyrotation-keys-unsigned', `${doing}: ${proof.why}`);
  const { document, owners } = proof;
  const floors = await store.loadFloors();
  try {
    const { signedAfterMs } = floors;
    verifyNotOlder(proof, { owners: floors.owners, document: floors.keys, signedAfterMs });
  } catch (cause) {
    if (cause instanceof OwnerDocumentError && cause.code !== 'owner-document-before-rollback')
      throw new KeyRotationError('keyrotation-generation-old', doing, { cause });
    throw cause;
  }
  if (!isSigned(document.body))
    throw new KeyRotationError('keyrotation-keys-unsigned', `${doing}: an owner signed other keys`);
  const { serial, sha256 } = document;
  await store.saveFloors({ keys: { serial, sha256 }, ...(owners === undefined ? {} : { owners }) });
}
