import { randomBytes } from 'node:crypto';
import { ALG } from '../algorithms.ts';
import { password, type Authorization } from '../command.ts';
import type { LoadedHandle, TpmConnection } from '../connection.ts';
import { encodePcrSelection, pcrDigest } from '../structures/pcr-selection.ts';
import { WireWriter } from '../wire.ts';
import { HIERARCHY } from './keys.ts';

const NULL_HANDLE = 0x40000007;
const SESSION_POLICY = 0x01;
const EMPTY = new Uint8Array();

/** A policy session. Each use of an endorsement key (EK) needs a new one. */
export interface PolicySession extends LoadedHandle {
  readonly auth: Authorization;
}

/**
 * TPM2_StartAuthSession: an unsalted, unbound policy session. `hash` must be the Name algorithm of the object that it
 * authorizes.
 */
export async function startPolicySession(
  tpm: TpmConnection,
  signal: AbortSignal,
  hash: 'sha256' | 'sha384' = 'sha256',
): Promise<PolicySession> {
  const parameters = new WireWriter()
    .sized(randomBytes(32)) // nonceCaller
    .sized(EMPTY) // encryptedSalt
    .u8(SESSION_POLICY)
    .u16(ALG.null) // no parameter encryption
    .u16(ALG[hash])
    .finish();
  const response = await tpm.execute(
    { name: 'startAuthSession', handles: [NULL_HANDLE, NULL_HANDLE], parameters, returnsHandle: true },
    signal,
  );
  const session = tpm.track(response.handle);
  response.parameters.sized('nonceTPM', 64);
  response.parameters.end();
  return { ...session, auth: { sessionHandle: session.handle, value: EMPTY } };
}

/** TPM2_PolicySecret with the (empty) password of the endorsement hierarchy, which PolicyA of an EK requires. */
export async function policyEndorsementSecret(
  tpm: TpmConnection,
  session: PolicySession,
  signal: AbortSignal,
): Promise<void> {
  const parameters = new WireWriter().sized(EMPTY).sized(EMPTY).sized(EMPTY).u32(0).finish();
  const handles = [HIERARCHY.endorsement, session.handle];
  await tpm.ask(
    { name: 'policySecret', handles, authorizations: [password()], parameters },
    signal,
    (reader) => {
      reader.sized('timeout', 64);
      reader.u16('ticket tag');
      reader.u32('ticket hierarchy');
      reader.sized('ticket digest', 64);
    },
  );
}

/** TPM2_PolicyOR: passes if the policy digest of the session is one of `branches`, in the order of the key's policy. */
export async function policyOr(
  tpm: TpmConnection,
  session: PolicySession,
  branches: readonly Uint8Array[],
  signal: AbortSignal,
): Promise<void> {
  const writer = new WireWriter().u32(branches.length);
  for (const branch of branches) writer.sized(branch);
  await tpm.run({ name: 'policyOr', handles: [session.handle], parameters: writer.finish() }, signal);
}

/** TPM2_PolicyPCR over the current values of the PCRs. With `expected` the TPM refuses (TPM_RC_VALUE) other values. */
export async function policyPcr(
  tpm: TpmConnection,
  options: {
    readonly session: PolicySession;
    readonly pcrs: readonly number[];
    readonly expected?: ReadonlyMap<number, Uint8Array>;
  },
  signal: AbortSignal,
): Promise<void> {
  const parameters = new WireWriter()
    .sized(options.expected === undefined ? EMPTY : pcrDigest(options.expected, 'sha256'))
    .bytes(encodePcrSelection({ hash: 'sha256', pcrs: options.pcrs }))
    .finish();
  await tpm.run({ name: 'policyPcr', handles: [options.session.handle], parameters }, signal);
}
