import { password, type Authorization } from '../command.ts';
import type { LoadedHandle, TpmConnection } from '../connection.ts';
import { malformed } from '../errors.ts';
import { MAX_PUBLIC_BYTES, nameOf, parsePublic, type TpmPublic } from '../structures/public.ts';
import type { Template } from '../structures/templates.ts';
import { WireWriter, type WireReader } from '../wire.ts';
import type { PolicySession, SaltedSession } from './sessions.ts';

const EMPTY = new Uint8Array();

/** A key in the memory of the TPM. Disposing flushes it. */
export interface LoadedKey extends LoadedHandle {
  readonly publicArea: TpmPublic;
  readonly name: Uint8Array;
  readonly auth: Authorization;
}

/** Parameters of TPM2_CreatePrimary. */
interface PrimaryOptions {
  readonly hierarchy: number;
  readonly template: Template;
  /**
   * Authorization value of the new key; default: empty. It crosses the bus encrypted here, and not at all when the key is used. The
   * hierarchy itself must have an empty password.
   */
  readonly authValue?: { readonly value: Uint8Array; readonly session: SaltedSession };
}

/** TPM2_CreatePrimary: derives a key from the hierarchy's seed. The same template gives the same key. */
export async function createPrimary(
  tpm: TpmConnection,
  options: PrimaryOptions,
  signal: AbortSignal,
): Promise<LoadedKey> {
  const { hierarchy, template, authValue } = options;
  const parameters = new WireWriter()
    .sized(sensitiveCreate(authValue?.value ?? EMPTY, EMPTY))
    .sized(template)
    .sized(EMPTY) // outsideInfo
    .u32(0) // creationPCR
    .finish();
  const command = {
    name: 'createPrimary',
    handles: [hierarchy],
    authorizations: [authValue?.session.authorize(EMPTY, 'request') ?? password()],
    parameters,
  } as const;
  const response = await tpm.execute({ ...command, returnsHandle: true }, signal);
  const loaded = tpm.track(response.handle);
  try {
    const reader = response.parameters;
    const publicArea = parsePublic(reader.sized('public area', MAX_PUBLIC_BYTES));
    readCreation(reader);
    const name = readName(reader, publicArea);
    reader.end();
    return { ...loaded, publicArea, name, auth: authValue?.session.authorize(authValue.value) ?? password() };
  } catch (error) {
    await loaded[Symbol.asyncDispose]();
    throw error;
  }
}

/** TPM2_ReadPublic: the public area and Name of the key with this handle. */
export function readPublic(
  tpm: TpmConnection,
  handle: number,
  signal: AbortSignal,
): Promise<{ readonly publicArea: TpmPublic; readonly name: Uint8Array }> {
  return tpm.ask({ name: 'readPublic', handles: [handle] }, signal, (reader) => {
    const publicArea = parsePublic(reader.sized('public area', MAX_PUBLIC_BYTES));
    const name = readName(reader, publicArea);
    reader.sized('qualified name', 66);
    return { publicArea, name };
  });
}

/** A sealed secret outside the TPM: the template with its policy, and the encrypted secret. */
export interface SealedHalves {
  readonly publicPart: Uint8Array;
  readonly privatePart: Uint8Array;
}

/** A sealed secret in the memory of the TPM. */
export interface SealedObject extends LoadedHandle {
  /** Follows from the public part, and not from what the TPM says. */
  readonly name: Uint8Array;
}

/** TPM2_Load: loads a sealed object below its parent key. */
export async function loadObject(
  tpm: TpmConnection,
  parent: LoadedKey,
  halves: SealedHalves,
  signal: AbortSignal,
): Promise<SealedObject> {
  const parameters = new WireWriter().sized(halves.privatePart).sized(halves.publicPart).finish();
  const command = {
    name: 'load',
    handles: [parent.handle],
    names: [parent.name],
    authorizations: [parent.auth],
    parameters,
  } as const;
  const response = await tpm.execute({ ...command, returnsHandle: true }, signal);
  const loaded = tpm.track(response.handle);
  response.parameters.sized('name', 66);
  response.parameters.end();
  return { ...loaded, name: nameOf({ bytes: halves.publicPart, nameHash: 'sha256' }) };
}

/**
 * TPM2_Unseal: the secret, encrypted on the bus. The TPM returns that of the object with exactly this Name, or nothing: the session
 * authenticates the Name, so that nobody on the bus can have another secret unsealed in its place.
 */
export function unseal(
  tpm: TpmConnection,
  options: {
    readonly object: SealedObject;
    readonly policy: PolicySession;
    readonly session: SaltedSession;
    readonly maxBytes: number;
  },
  signal: AbortSignal,
): Promise<Uint8Array> {
  const { object, policy, session } = options;
  const command = {
    name: 'unseal',
    handles: [object.handle],
    names: [object.name],
    authorizations: [policy.auth, session.authorize(EMPTY, 'response')],
  } as const;
  return tpm.ask(command, signal, (reader) => reader.sized('secret', options.maxBytes));
}

/**
 * TPM2_ActivateCredential: decrypts a credential that was created for this EK and the Name of this AK, and for no other pair.
 * `credentialBlob` and `encryptedSeed` come from the verifier; the TPM checks them. With an attestation key that has a secret, the
 * result crosses the bus encrypted.
 */
export function activateCredential(
  tpm: TpmConnection,
  options: {
    readonly attestationKey: Pick<LoadedKey, 'handle' | 'name' | 'auth'>;
    readonly endorsementKey: {
      readonly handle: number;
      readonly name: Uint8Array;
      readonly auth: Authorization;
    };
    readonly credentialBlob: Uint8Array;
    readonly encryptedSeed: Uint8Array;
  },
  signal: AbortSignal,
): Promise<Uint8Array> {
  const { attestationKey, endorsementKey } = options;
  const command = {
    name: 'activateCredential',
    handles: [attestationKey.handle, endorsementKey.handle],
    names: [attestationKey.name, endorsementKey.name],
    authorizations: [encryptingResponse(attestationKey.auth), endorsementKey.auth],
    parameters: new WireWriter().sized(options.credentialBlob).sized(options.encryptedSeed).finish(),
  } as const;
  return tpm.ask(command, signal, (reader) => reader.sized('certInfo', 64));
}

function encryptingResponse(auth: Authorization): Authorization {
  return auth.session === undefined ? auth : { ...auth, encrypts: 'response' };
}

/** TPMS_SENSITIVE_CREATE. */
function sensitiveCreate(authValue: Uint8Array, data: Uint8Array): Uint8Array {
  return new WireWriter().sized(authValue).sized(data).finish();
}

/** Skips creationData, creationHash and creationTicket, which are not used. */
function readCreation(reader: WireReader): void {
  reader.sized('creationData', MAX_PUBLIC_BYTES);
  reader.sized('creationHash', 64);
  reader.u16('ticket tag');
  reader.u32('ticket hierarchy');
  reader.sized('ticket digest', 64);
}

/** Reads the Name of an object and checks that it matches the public area. */
function readName(reader: WireReader, publicArea: TpmPublic): Uint8Array {
  const name = reader.sized('name', 66);
  if (Buffer.compare(name, nameOf(publicArea)) !== 0)
    throw malformed('the name of an object: it does not match the public area');
  return name;
}
