import { Secret } from '../secret/index.ts';
import { createPrimary, createSealed, HIERARCHY, loadObject } from './commands/keys.ts';
import { policyPcr, startPolicySession } from './commands/sessions.ts';
import type { TpmConnection } from './connection.ts';
import { malformed } from './errors.ts';
import { encodePcrSelection, pcrPolicyDigest, readPcrSelection } from './structures/pcr-selection.ts';
import { sealedObjectTemplate, STORAGE_ROOT } from './structures/templates.ts';
import { WireReader, WireWriter } from './wire.ts';

const MAGIC = 0x63545053; // "cTPS"
const VERSION = 1;
/** The parent of all sealed secrets, which the TPM derives from the seed of its owner hierarchy. */
export const STORAGE_PARENT = { hierarchy: HIERARCHY.owner, template: STORAGE_ROOT } as const;
/** Size limit of a sealed secret (MAX_SYM_DATA of common TPMs). */
export const MAX_SEALED_SECRET_BYTES = 128;

/**
 * Seals a secret so that only this TPM can unseal it, and only while the PCRs have the given values (SHA-256 bank). The
 * values may differ from the current ones: an installer seals to the values that the next boot will measure.
 */
export async function sealSecret(
  tpm: TpmConnection,
  secret: Secret<Uint8Array>,
  values: ReadonlyMap<number, Uint8Array>,
  signal: AbortSignal,
): Promise<Uint8Array> {
  const bytes = sealableBytes(secret);
  await using parent = await createPrimary(tpm, STORAGE_PARENT, signal);
  const template = sealedObjectTemplate(pcrPolicyDigest(values));
  const { publicPart, privatePart } = await createSealed(tpm, { parent, template, secret: bytes }, signal);
  return new WireWriter()
    .u32(MAGIC)
    .u16(VERSION)
    .bytes(encodePcrSelection({ hash: 'sha256', pcrs: [...values.keys()] }))
    .sized(publicPart)
    .sized(privatePart)
    .finish();
}

/**
 * Unseals a secret. Throws TpmError `tpm-policy-failed` when the PCRs have other values, `tpm-credential-rejected` for a blob
 * of another TPM.
 */
export async function unsealSecret(
  tpm: TpmConnection,
  sealed: Uint8Array,
  signal: AbortSignal,
): Promise<Secret<Uint8Array>> {
  const { pcrs, publicPart, privatePart } = parseSealed(sealed);
  await using parent = await createPrimary(tpm, STORAGE_PARENT, signal);
  await using object = await loadObject(tpm, parent, { publicPart, privatePart }, signal);
  await using session = await startPolicySession(tpm, signal);
  await policyPcr(tpm, { session, pcrs }, signal);
  const command = { name: 'unseal', handles: [object.handle], authorizations: [session.auth] } as const;
  const read = (reader: WireReader) => reader.sized('secret', MAX_SEALED_SECRET_BYTES);
  return new Secret(await tpm.ask(command, signal, read));
}

/**
 * Parses a blob of `sealSecret()` from disk, which may have been altered. The TPM checks the public and private part
 * itself.
 */
export function parseSealed(sealed: Uint8Array) {
  const reader = new WireReader(sealed, 'a sealed secret');
  reader.expect(reader.u32('magic'), MAGIC, 'magic');
  reader.expect(reader.u16('version'), VERSION, 'version');
  const selection = readPcrSelection(reader);
  if (selection.hash !== 'sha256' || selection.pcrs.length === 0)
    throw malformed('a sealed secret: its PCR selection is empty or not SHA-256');
  const publicPart = reader.sized('public part', 1024);
  const privatePart = reader.sized('private part', 1024);
  reader.end();
  return { pcrs: selection.pcrs, publicPart, privatePart };
}

/** The bytes of a secret. Throws RangeError if a TPM cannot seal that many. */
export function sealableBytes(secret: Secret<Uint8Array>): Uint8Array {
  const bytes = secret.reveal();
  if (bytes.length === 0 || bytes.length > MAX_SEALED_SECRET_BYTES)
    throw new RangeError(`a sealed secret has 1 to ${MAX_SEALED_SECRET_BYTES} bytes, not ${bytes.length}`);
  return bytes;
}
