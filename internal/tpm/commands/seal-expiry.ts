import { policyCounter } from './policies.ts';
import type { PolicySession } from './sessions.ts';
import type { TpmConnection } from '../connection.ts';
import { malformed, unproved } from '../errors.ts';
import type { NvCounter } from '../nv-counter.ts';
import { counterPolicyDigest } from '../structures/policy-digest.ts';
import type { WireReader, WireWriter } from '../wire.ts';

/** Versions of a sealed secret. Earlier releases read only those without an end. */
const VERSIONS = { endless: 1, ending: 2 } as const;

/** When a sealed secret ends: the TPM opens it while the counter has at most the value `last`. */
export interface SealExpiry {
  readonly counter: NvCounter;
  readonly last: bigint;
}

/** Adds the end of a secret to its policy: a condition after all others, so that no branch opens the secret later. */
export function expiringPolicy(policy: Uint8Array, expiry: SealExpiry | undefined): Uint8Array {
  return expiry === undefined ? policy : counterPolicyDigest(expiry.counter.definition, expiry.last, policy);
}

/** Sends the command for the end of a secret to a session that has satisfied the rest of its policy. @throws TpmError `tpm-policy-failed` after the end */
export async function satisfyExpiry(
  tpm: TpmConnection,
  { session, expiry }: { readonly session: PolicySession; readonly expiry: SealExpiry | undefined },
  signal: AbortSignal,
): Promise<void> {
  if (expiry === undefined) return;
  const { counter, last } = expiry;
  await policyCounter(tpm, { session, counter: counter.definition, limit: last }, signal);
}

/** The end that a parsed secret names. @throws TpmError `tpm-seal-unproved` if its purpose has no counter for it */
export function expiryOf(last: bigint | undefined, counter: NvCounter | undefined): SealExpiry | undefined {
  if (last === undefined) return undefined;
  if (counter === undefined) throw unproved('it has an end, and its purpose has none');
  return { counter, last };
}

/** Writes the version of a sealed secret, and its end. */
export function writeExpiry(writer: WireWriter, expiry: SealExpiry | undefined): WireWriter {
  return expiry === undefined ? writer.u16(VERSIONS.endless) : writer.u16(VERSIONS.ending).u64(expiry.last);
}

/** Reads what `writeExpiry()` has written. @throws TpmError `tpm-malformed` */
export function readExpiry(reader: WireReader): bigint | undefined {
  const version = reader.u16('version');
  if (version === VERSIONS.endless) return undefined;
  if (version !== VERSIONS.ending) throw malformed(`a sealed secret: version ${version}`);
  return reader.u64('last value of the counter');
}
