import { digestOf } from './algorithms.ts';
import type { Authorization } from './command.ts';
import { HIERARCHY } from './commands/hierarchies.ts';
import { createPrimary, readPublic, type LoadedKey } from './commands/keys.ts';
import { readNv, readNvPublic } from './commands/nv.ts';
import { policyEndorsementSecret, policyOr, startPolicySession } from './commands/sessions.ts';
import type { LoadedHandle, TpmConnection } from './connection.ts';
import { TpmError } from './errors.ts';
import { openStorage } from './storage.ts';
import type { TpmPublic } from './structures/public.ts';
import {
  attestationKeyTemplate,
  EK_ECC_P256,
  EK_ECC_P384,
  EK_POLICY_B_BRANCHES_SHA384,
  EK_RSA_2048,
  type Template,
} from './structures/templates.ts';
import type { Secret } from '../secret/index.ts';

/** Kind of an endorsement key (EK). */
export type EndorsementKeyKind = 'rsa-2048' | 'ecc-p256' | 'ecc-p384';

/**
 * The template of each EK, and where manufacturers store the key (TCG Provisioning Guidance) and its certificate (EK
 * Credential Profile 2.2.1).
 */
const ENDORSEMENT_KEYS: Readonly<
  Record<
    EndorsementKeyKind,
    { readonly template: Template; readonly persistent: number; readonly certificateIndex: number }
  >
> = {
  'rsa-2048': { template: EK_RSA_2048, persistent: 0x81010001, certificateIndex: 0x01c00002 },
  'ecc-p256': { template: EK_ECC_P256, persistent: 0x81010002, certificateIndex: 0x01c0000a },
  'ecc-p384': { template: EK_ECC_P384, persistent: 0x81010016, certificateIndex: 0x01c00016 },
};

/** An endorsement key that is ready for use. */
export interface EndorsementKey extends LoadedHandle {
  readonly publicArea: TpmPublic;
  readonly name: Uint8Array;
}

/** Opens the EK: the persistent key if the manufacturer stored one, else the key derived from the endorsement seed. */
export async function openEndorsementKey(
  tpm: TpmConnection,
  kind: EndorsementKeyKind,
  signal: AbortSignal,
): Promise<EndorsementKey> {
  const { template, persistent } = ENDORSEMENT_KEYS[kind];
  try {
    const found = await readPublic(tpm, persistent, signal);
    if (isMadeFrom(template, found.publicArea)) {
      return { ...found, handle: persistent, [Symbol.asyncDispose]: () => Promise.resolve() };
    }
  } catch (error) {
    if (!(error instanceof TpmError && error.code === 'tpm-handle-missing')) throw error;
  }
  return createPrimary(tpm, { hierarchy: HIERARCHY.endorsement, template }, signal);
}

/**
 * Runs one command with the authorization of the EK: a new session that satisfies its policy. An EK of the high range
 * could also be used with its empty authorization value. But after such use the TPM counts a loss of power as a failed
 * attempt (dictionary attack protection, TPM 2.0 Library, Part 1, 19.8). After a few failed attempts, the machine could
 * not use its own key any more.
 */
export async function withEndorsementAuth<T>(
  tpm: TpmConnection,
  key: EndorsementKey,
  signal: AbortSignal,
  use: (auth: Authorization) => Promise<T>,
): Promise<T> {
  const isHighRange = key.publicArea.nameHash === 'sha384';
  await using session = await startPolicySession(tpm, signal, isHighRange ? 'sha384' : 'sha256');
  await policyEndorsementSecret(tpm, session, signal);
  if (isHighRange) await policyOr(tpm, session, EK_POLICY_B_BRANCHES_SHA384, signal);
  return await use(session.auth);
}

/** The certificate (DER) of an EK that the manufacturer wrote to NV, without padding; undefined if there is none. */
export async function readEndorsementCertificate(
  tpm: TpmConnection,
  kind: EndorsementKeyKind,
  signal: AbortSignal,
): Promise<Uint8Array | undefined> {
  const { certificateIndex } = ENDORSEMENT_KEYS[kind];
  if ((await readNvPublic(tpm, certificateIndex, signal)) === undefined) return undefined;
  return cutToDerLength(await readNv(tpm, certificateIndex, signal));
}

/** An attestation key (AK) in the memory of the TPM. Disposing flushes it, and its session. */
export interface AttestationKey extends LoadedKey {
  /** The session that authorizes the use of a key with a secret. */
  readonly session?: LoadedHandle;
}

/**
 * Derives the attestation key (AK) and loads it in one connection. Without a secret, any program with access to the TPM
 * can derive the same key and sign with it. With a secret (at least 16 bytes), both the derivation and the
 * authorization value of the key depend on it, so that only programs that know the secret can use the key. The
 * authorization value crosses the bus encrypted, once. The input of the derivation crosses it in the clear, because a TPM
 * encrypts only the first parameter of a command (docs/tpm-evidence.md, 7).
 */
export async function createAttestationKey(
  tpm: TpmConnection,
  secret: Secret<Uint8Array> | undefined,
  signal: AbortSignal,
): Promise<AttestationKey> {
  const hierarchy = HIERARCHY.endorsement;
  if (secret === undefined)
    return createPrimary(tpm, { hierarchy, template: attestationKeyTemplate() }, signal);
  const value = secret.reveal();
  if (value.length < 16) throw new RangeError('an AK secret must have at least 16 bytes');
  const derive = (label: string): Uint8Array =>
    digestOf('sha256', Buffer.from(`cluster ak ${label}\0`), value);
  const { key: storageKey, session } = await openStorage(tpm, undefined, signal);
  await storageKey[Symbol.asyncDispose]();
  const template = attestationKeyTemplate(derive('unique'));
  const authValue = { value: derive('auth'), session };
  const key = await createPrimary(tpm, { hierarchy, template, authValue }, signal);
  const dispose = async (): Promise<void> => {
    await key[Symbol.asyncDispose]();
    await session[Symbol.asyncDispose]();
  };
  return { ...key, session, [Symbol.asyncDispose]: dispose };
}

/** Whether a public area was created from a template: everything before the field `unique` is equal. */
function isMadeFrom(template: Template, publicArea: TpmPublic): boolean {
  const unique =
    publicArea.key.kind === 'rsa' ? publicArea.key.bits / 8 + 2 : publicArea.key.x.length * 2 + 4;
  const head = publicArea.bytes.length - unique;
  return Buffer.compare(template.subarray(0, head), publicArea.bytes.subarray(0, head)) === 0;
}

/** Some manufacturers pad the index with 0x00 or 0xff; the certificate contains its own length. */
function cutToDerLength(bytes: Uint8Array): Uint8Array {
  const longForm = bytes[0] === 0x30 && bytes[1] === 0x82 && bytes.length >= 4;
  if (!longForm) return bytes;
  return bytes.slice(0, 4 + Buffer.from(bytes).readUInt16BE(2));
}
