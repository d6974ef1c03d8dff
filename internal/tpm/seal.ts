import type { Secret } from '../secret/index.ts';
import { loadObject } from './commands/keys.ts';
import type { TpmConnection } from './connection.ts';
import { malformed } from './errors.ts';
import { policyPcr, type PolicySession } from './commands/sessions.ts';
import { sealToPcrs, unsealWithPolicy } from './sealed-object.ts';
import { openStorage } from './storage.ts';
import { encodePcrSelection, readPcrSelection } from './structures/pcr-selection.ts';
import { pcrPolicyDigest } from './structures/policy-digest.ts';
import { WireReader, WireWriter } from './wire.ts';

const MAGIC = 0x63545053; // "cTPS"
/** Version 1 has no name of the storage key. */
const VERSIONS = { withoutName: 1, current: 2 } as const;

/** Seals a secret so that only this TPM can unseal it, and only while the PCRs have their current values (SHA-256 bank). */
export async function sealSecret(
  tpm: TpmConnection,
  secret: Secret<Uint8Array>,
  pcrs: readonly number[],
  signal: AbortSignal,
): Promise<Uint8Array> {
  await using storage = await openStorage(tpm, undefined, signal);
  const outsideInfo = new Uint8Array();
  const policyOf = (digest: Uint8Array): Uint8Array => pcrPolicyDigest(pcrs, digest);
  const options = { storage, secret, pcrs, outsideInfo, policyOf };
  const { publicPart, privatePart } = await sealToPcrs(tpm, options, signal);
  return new WireWriter()
    .u32(MAGIC)
    .u16(VERSIONS.current)
    .bytes(encodePcrSelection({ hash: 'sha256', pcrs }))
    .sized(storage.key.name)
    .sized(publicPart)
    .sized(privatePart)
    .finish();
}

/**
 * Unseals a secret. Throws TpmError `tpm-policy-failed` when the PCRs have other values, `tpm-storage-key-changed` for a blob
 * of another TPM, `tpm-credential-rejected` for an altered one.
 */
export async function unsealSecret(
  tpm: TpmConnection,
  sealed: Uint8Array,
  signal: AbortSignal,
): Promise<Secret<Uint8Array>> {
  const { pcrs, storageKeyName, publicPart, privatePart } = parseSealed(sealed);
  await using storage = await openStorage(tpm, storageKeyName, signal);
  await using object = await loadObject(tpm, storage.key, { publicPart, privatePart }, signal);
  const satisfy = (session: PolicySession): Promise<void> => policyPcr(tpm, { session, pcrs }, signal);
  return await unsealWithPolicy(tpm, { storage, object, satisfy }, signal);
}

/**
 * Parses a blob of `sealSecret()` from disk, which may have been altered. The TPM checks the public and private part
 * itself.
 */
export function parseSealed(sealed: Uint8Array) {
  const reader = new WireReader(sealed, 'a sealed secret');
  reader.expect(reader.u32('magic'), MAGIC, 'magic');
  const version = reader.u16('version');
  if (version !== VERSIONS.withoutName) reader.expect(version, VERSIONS.current, 'version');
  const selection = readPcrSelection(reader);
  if (selection.hash !== 'sha256' || selection.pcrs.length === 0)
    throw malformed('a sealed secret: its PCR selection is empty or not SHA-256');
  const storageKeyName =
    version === VERSIONS.withoutName ? undefined : reader.sized('name of the storage key', 66);
  const publicPart = reader.sized('public part', 1024);
  const privatePart = reader.sized('private part', 1024);
  reader.end();
  return { pcrs: selection.pcrs, storageKeyName, publicPart, privatePart };
}
