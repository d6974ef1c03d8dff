import { digestOf } from './algorithms.ts';
import type { Authorization } from './command.ts';
import { createPrimary, HIERARCHY, readPublic, type LoadedKey } from './commands/keys.ts';
import { readNv, readNvPublic } from './commands/nv.ts';
import { policyEndorsementSecret, policyOr, startPolicySession } from './commands/sessions.ts';
import type { LoadedHandle, TpmConnection } from './connection.ts';
import { TpmError } from './errors.ts';
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

export type EndorsementKeyKind = 'rsa-2048' | 'ecc-p256' | 'ecc-p384';

/** Where manufacturers put each EK (TCG Provisioning Guidance) and its certificate (EK Credential Profile 2.2.1). */
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

export const ENDORSEMENT_KEY_KINDS = Object.keys(ENDORSEMENT_KEYS) as readonly EndorsementKeyKind[];

export interface EndorsementKey extends LoadedHandle {
  readonly publicArea: TpmPublic;
  readonly name: Uint8Array;
}

/** The EK: the persistent one where the manufacturer left it, derived again from the seed otherwise. */
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
 * Runs one command with the EK's authorization: a fresh session that shows its policy. One of the high range would take its
 * empty value too, but its use is then guarded against guessing (TPM 2.0 Library, part 1, 19.8): a machine that lost its
 * power a few times would be locked out of its own key.
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

/** The DER certificate of an EK as the manufacturer wrote it to NV, or undefined. Padding is cut by its DER length. */
export async function readEndorsementCertificate(
  tpm: TpmConnection,
  kind: EndorsementKeyKind,
  signal: AbortSignal,
): Promise<Uint8Array | undefined> {
  const { certificateIndex } = ENDORSEMENT_KEYS[kind];
  if ((await readNvPublic(tpm, certificateIndex, signal)) === undefined) return undefined;
  return cutToDerLength(await readNv(tpm, certificateIndex, signal));
}

/**
 * The AK, made for one connection. Without a secret any program that reaches the TPM derives the same key and may
 * sign with it. With one the secret enters both the key's derivation and its authorization value: neither the key
 * that is loaded nor the seed is of use to who does not know it.
 */
export function createAttestationKey(
  tpm: TpmConnection,
  secret: Secret<Uint8Array> | undefined,
  signal: AbortSignal,
): Promise<LoadedKey> {
  const hierarchy = HIERARCHY.endorsement;
  if (secret === undefined)
    return createPrimary(tpm, { hierarchy, template: attestationKeyTemplate() }, signal);
  const value = secret.reveal();
  if (value.length < 16) throw new RangeError('an AK secret has at least 16 bytes');
  const derive = (label: string): Uint8Array =>
    digestOf('sha256', Buffer.from(`cluster ak ${label}\0`), value);
  const template = attestationKeyTemplate(derive('unique'));
  return createPrimary(tpm, { hierarchy, template, authValue: derive('auth') }, signal);
}

/** Whether a public area is the template with its unique field filled in: everything before `unique` is equal. */
function isMadeFrom(template: Template, publicArea: TpmPublic): boolean {
  const unique =
    publicArea.key.kind === 'rsa' ? publicArea.key.bits / 8 + 2 : publicArea.key.x.length * 2 + 4;
  const head = publicArea.bytes.length - unique;
  return Buffer.compare(template.subarray(0, head), publicArea.bytes.subarray(0, head)) === 0;
}

/** Some manufacturers pad the index with zeros or 0xff. A certificate says itself how long it is. */
function cutToDerLength(bytes: Uint8Array): Uint8Array {
  const longForm = bytes[0] === 0x30 && bytes[1] === 0x82 && bytes.length >= 4;
  if (!longForm) return bytes;
  return bytes.slice(0, 4 + Buffer.from(bytes).readUInt16BE(2));
}
