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
export const MAX_SEALED_SECRET_BYTES = 128;

/**
 * Seals a secret so that only this TPM opens it, and only while the PCRs have these values (SHA-256 bank). The
 * values need not be those of now: an installer seals to what the next boot will measure.
 */
export async function sealSecret(
  tpm: TpmConnection,
  secret: Secret<Uint8Array>,
  values: ReadonlyMap<number, Uint8Array>,
  signal: AbortSignal,
): Promise<Uint8Array> {
  const bytes = secret.reveal();
  if (bytes.length === 0 || bytes.length > MAX_SEALED_SECRET_BYTES)
    throw new RangeError('secret of 1 to 128 bytes');
  await using parent = await createPrimary(
    tpm,
    { hierarchy: HIERARCHY.owner, template: STORAGE_ROOT },
    signal,
  );
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

/** Opens a sealed secret. `tpm-policy-failed` when the PCRs have other values, `tpm-credential-rejected` elsewhere. */
export async function unsealSecret(
  tpm: TpmConnection,
  sealed: Uint8Array,
  signal: AbortSignal,
): Promise<Secret<Uint8Array>> {
  const { pcrs, publicPart, privatePart } = parseSealed(sealed);
  await using parent = await createPrimary(
    tpm,
    { hierarchy: HIERARCHY.owner, template: STORAGE_ROOT },
    signal,
  );
  await using object = await loadObject(tpm, parent, { publicPart, privatePart }, signal);
  await using session = await startPolicySession(tpm, signal);
  await policyPcr(tpm, { session, pcrs }, signal);
  const { parameters: reader } = await tpm.execute(
    { name: 'unseal', handles: [object.handle], authorizations: [session.auth] },
    signal,
  );
  const secret = reader.sized('secret', MAX_SEALED_SECRET_BYTES);
  reader.end();
  return new Secret(secret);
}

/** The blob `sealSecret` made. It lies on disk and may have been altered: the TPM checks the halves, this the frame. */
export function parseSealed(sealed: Uint8Array) {
  const reader = new WireReader(sealed, 'a sealed secret');
  reader.expect(reader.u32('magic'), MAGIC, 'magic');
  reader.expect(reader.u16('version'), VERSION, 'version');
  const selection = readPcrSelection(reader);
  if (selection.hash !== 'sha256' || selection.pcrs.length === 0)
    throw malformed('a sealed secret: PCR selection');
  const publicPart = reader.sized('public part', 1024);
  const privatePart = reader.sized('private part', 1024);
  reader.end();
  return { pcrs: selection.pcrs, publicPart, privatePart };
}
