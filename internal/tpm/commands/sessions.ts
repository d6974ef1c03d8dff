import { randomBytes } from 'node:crypto';
import { ALG } from '../algorithms.ts';
import { password, type Authorization } from '../command.ts';
import type { LoadedHandle, TpmConnection } from '../connection.ts';
import { HmacSession, sessionKey } from '../sessions/hmac-session.ts';
import { shareSecret } from '../sessions/share-secret.ts';
import { encodePcrSelection } from '../structures/pcr-selection.ts';
import { Secret } from '../../secret/index.ts';
import type { TpmPublic } from '../structures/public.ts';
import { WireWriter } from '../wire.ts';
import { HIERARCHY } from './hierarchies.ts';

const SESSION_HMAC = 0x00;
const SESSION_POLICY = 0x01;
const SESSION_DRY_RUN = 0x03;
const EMPTY = new Uint8Array();

/** A session that keeps secrets from the bus to the TPM (docs/tpm-evidence.md, 7). */
export interface SaltedSession extends LoadedHandle {
  /**
   * Authorizes a handle with its authorization value, which does not cross the bus. `encrypts`: whose first parameter is encrypted.
   * It must be the first session of the command with a value: the HMAC of another first session would have to cover this one's nonce.
   */
  authorize(value?: Uint8Array, encrypts?: Authorization['encrypts']): Authorization;
}

/**
 * TPM2_StartAuthSession: an HMAC session whose key only this program and the TPM that holds `saltKey` can compute. The caller makes
 * sure beforehand that `saltKey` is a key of the right TPM.
 */
export async function startSaltedSession(
  tpm: TpmConnection,
  saltKey: { readonly handle: number; readonly publicArea: TpmPublic },
  signal: AbortSignal,
): Promise<SaltedSession> {
  const nonceCaller = randomBytes(32);
  const { secret: salt, encrypted } = shareSecret(saltKey.publicArea, 'SECRET');
  const parameters = new WireWriter()
    .sized(nonceCaller)
    .sized(encrypted)
    .u8(SESSION_HMAC)
    .u16(ALG.aes)
    .u16(128)
    .u16(ALG.cfb)
    .u16(ALG.sha256)
    .finish();
  const handles = [saltKey.handle, HIERARCHY.null];
  const response = await tpm.execute(
    { name: 'startAuthSession', handles, parameters, returnsHandle: true },
    signal,
  );
  const loaded = tpm.track(response.handle);
  const nonceTpm = response.parameters.sized('nonceTPM', 64);
  response.parameters.end();
  const key = new Secret(sessionKey(salt, nonceTpm, nonceCaller));
  const session = new HmacSession({ handle: loaded.handle, key, nonceTpm });
  return {
    ...loaded,
    authorize: (value = EMPTY, encrypts) => ({
      ...{ sessionHandle: loaded.handle, value, session },
      ...(encrypts === undefined ? {} : { encrypts }),
    }),
  };
}

/** A policy session. Each use of an endorsement key (EK) needs a new one. */
export interface PolicySession extends LoadedHandle {
  readonly auth: Authorization;
}

/**
 * TPM2_StartAuthSession: an unsalted, unbound policy session. `hash` must be the Name algorithm of the object that it
 * authorizes.
 */
export function startPolicySession(
  tpm: TpmConnection,
  signal: AbortSignal,
  hash: 'sha256' | 'sha384' = 'sha256',
): Promise<PolicySession> {
  return startUnsaltedSession(tpm, { type: SESSION_POLICY, hash }, signal);
}

/** A session that computes a policy without satisfying it. It authorizes nothing. */
export function startDryRunSession(tpm: TpmConnection, signal: AbortSignal): Promise<PolicySession> {
  return startUnsaltedSession(tpm, { type: SESSION_DRY_RUN, hash: 'sha256' }, signal);
}

async function startUnsaltedSession(
  tpm: TpmConnection,
  { type, hash }: { readonly type: number; readonly hash: 'sha256' | 'sha384' },
  signal: AbortSignal,
): Promise<PolicySession> {
  const parameters = new WireWriter()
    .sized(randomBytes(32)) // nonceCaller
    .sized(EMPTY) // encryptedSalt
    .u8(type)
    .u16(ALG.null) // no parameter encryption
    .u16(ALG[hash])
    .finish();
  const response = await tpm.execute(
    { name: 'startAuthSession', handles: [HIERARCHY.null, HIERARCHY.null], parameters, returnsHandle: true },
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

/**
 * TPM2_PolicyPCR over the current values of the PCRs. With `expected`, a `pcrDigest()`, the TPM refuses (TPM_RC_VALUE) other values; a
 * dry-run session takes it for the current ones.
 */
export async function policyPcr(
  tpm: TpmConnection,
  options: {
    readonly session: PolicySession;
    readonly pcrs: readonly number[];
    readonly expected?: Uint8Array;
  },
  signal: AbortSignal,
): Promise<void> {
  const parameters = new WireWriter()
    .sized(options.expected ?? EMPTY)
    .bytes(encodePcrSelection({ hash: 'sha256', pcrs: options.pcrs }))
    .finish();
  await tpm.run({ name: 'policyPcr', handles: [options.session.handle], parameters }, signal);
}
