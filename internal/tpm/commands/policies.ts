import { password } from '../command.ts';
import type { LoadedHandle, TpmConnection } from '../connection.ts';
import type { NvPublic } from '../structures/nv-public.ts';
import { counterCondition } from '../structures/policy-digest.ts';
import { nameOf } from '../structures/public.ts';
import { encodeSignature, type TpmSignature } from '../structures/signature.ts';
import { WireWriter } from '../wire.ts';
import { HIERARCHY } from './hierarchies.ts';
import type { PolicySession } from './sessions.ts';

const ST_VERIFIED = 0x8022;
const EMPTY = new Uint8Array();

/** TPM2_PolicyNV: passes while a counter without an authorization value has at most the value `limit`. */
export async function policyCounter(
  tpm: TpmConnection,
  options: { readonly session: PolicySession; readonly counter: NvPublic; readonly limit: bigint },
  signal: AbortSignal,
): Promise<void> {
  const { session, counter, limit } = options;
  const { operand, offset, operation } = counterCondition(limit);
  const parameters = new WireWriter().sized(operand).u16(offset).u16(operation).finish();
  const handles = [counter.index, counter.index, session.handle];
  await tpm.run({ name: 'policyNv', handles, authorizations: [password()], parameters }, signal);
}

/** The public half of a signature key that the TPM did not make. Disposing flushes it. */
interface ExternalKey extends LoadedHandle {
  readonly name: Uint8Array;
}

/** TPM2_LoadExternal of a public area, so that the TPM verifies signatures with it. */
async function loadExternal(
  tpm: TpmConnection,
  publicPart: Uint8Array,
  signal: AbortSignal,
): Promise<ExternalKey> {
  const parameters = new WireWriter().sized(EMPTY).sized(publicPart).u32(HIERARCHY.owner).finish();
  const response = await tpm.execute({ name: 'loadExternal', parameters, returnsHandle: true }, signal);
  const loaded = tpm.track(response.handle);
  response.parameters.sized('name', 66);
  response.parameters.end();
  return { ...loaded, name: nameOf({ bytes: publicPart, nameHash: 'sha256' }) };
}

/**
 * TPM2_VerifySignature over a digest, with a key from outside.
 * @returns the digest of the ticket with which the TPM recognizes what it has verified
 * @throws TpmError `tpm-refused` (TPM_RC_SIGNATURE)
 */
export async function verifySignature(
  tpm: TpmConnection,
  options: {
    readonly publicPart: Uint8Array;
    readonly digest: Uint8Array;
    readonly signature: TpmSignature;
  },
  signal: AbortSignal,
): Promise<Uint8Array> {
  await using key = await loadExternal(tpm, options.publicPart, signal);
  const parameters = new WireWriter()
    .sized(options.digest)
    .bytes(encodeSignature(options.signature))
    .finish();
  return await tpm.ask({ name: 'verifySignature', handles: [key.handle], parameters }, signal, (reader) => {
    reader.expect(reader.u16('ticket tag'), ST_VERIFIED, 'ticket tag');
    reader.expect(reader.u32('ticket hierarchy'), HIERARCHY.owner, 'ticket hierarchy');
    return reader.sized('ticket digest', 64);
  });
}

/**
 * TPM2_PolicyAuthorize: replaces the policy that the session has satisfied, if the key with this Name has signed it.
 * @throws TpmError `tpm-refused` for another policy (TPM_RC_VALUE) or another ticket (TPM_RC_TICKET)
 */
export async function policyAuthorize(
  tpm: TpmConnection,
  options: {
    readonly session: PolicySession;
    readonly approvedPolicy: Uint8Array;
    readonly reference: Uint8Array;
    readonly keyName: Uint8Array;
    /** From `verifySignature()`. */
    readonly ticket: Uint8Array;
  },
  signal: AbortSignal,
): Promise<void> {
  const parameters = new WireWriter()
    .sized(options.approvedPolicy)
    .sized(options.reference)
    .sized(options.keyName)
    .u16(ST_VERIFIED)
    .u32(HIERARCHY.owner)
    .sized(options.ticket)
    .finish();
  await tpm.run({ name: 'policyAuthorize', handles: [options.session.handle], parameters }, signal);
}

/** TPM2_PolicyGetDigest. */
export function policyGetDigest(
  tpm: TpmConnection,
  session: PolicySession,
  signal: AbortSignal,
): Promise<Uint8Array> {
  return tpm.ask({ name: 'policyGetDigest', handles: [session.handle] }, signal, (reader) =>
    reader.sized('policy digest', 64),
  );
}
