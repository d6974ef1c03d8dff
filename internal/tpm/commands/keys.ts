import { password, type Authorization } from '../command.ts';
import type { LoadedHandle, TpmConnection } from '../connection.ts';
import { malformed } from '../errors.ts';
import { MAX_PUBLIC_BYTES, nameOf, parsePublic, type TpmPublic } from '../structures/public.ts';
import type { Template } from '../structures/templates.ts';
import { WireWriter, type WireReader } from '../wire.ts';

/** Permanent handles of the hierarchies (Part 2, 7.4). */
export const HIERARCHY = { owner: 0x40000001, endorsement: 0x4000000b, null: 0x40000007 } as const;

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
  /** Authorization value of the new key; default: empty. The hierarchy itself must have an empty password. */
  readonly authValue?: Uint8Array;
}

/** TPM2_CreatePrimary: derives a key from the hierarchy's seed. The same template gives the same key. */
export async function createPrimary(
  tpm: TpmConnection,
  options: PrimaryOptions,
  signal: AbortSignal,
): Promise<LoadedKey> {
  const { hierarchy, template, authValue = EMPTY } = options;
  const parameters = new WireWriter()
    .sized(sensitiveCreate(authValue, EMPTY))
    .sized(template)
    .sized(EMPTY) // outsideInfo
    .u32(0) // creationPCR
    .finish();
  const command = {
    name: 'createPrimary',
    handles: [hierarchy],
    authorizations: [password()],
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
    return { ...loaded, publicArea, name, auth: password(authValue) };
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

/** TPM2_Create of a sealed object. Returns its public and private part and loads nothing. */
export function createSealed(
  tpm: TpmConnection,
  options: { readonly parent: LoadedKey; readonly template: Template; readonly secret: Uint8Array },
  signal: AbortSignal,
): Promise<SealedHalves> {
  const parameters = new WireWriter()
    .sized(sensitiveCreate(EMPTY, options.secret))
    .sized(options.template)
    .sized(EMPTY)
    .u32(0)
    .finish();
  const { handle, auth } = options.parent;
  return tpm.ask(
    { name: 'create', handles: [handle], authorizations: [auth], parameters },
    signal,
    (reader) => {
      const privatePart = reader.sized('private area', MAX_PUBLIC_BYTES);
      const publicPart = reader.sized('public area', MAX_PUBLIC_BYTES);
      readCreation(reader);
      return { publicPart, privatePart };
    },
  );
}

/** A sealed secret outside the TPM: the template with its policy, and the encrypted secret. */
export interface SealedHalves {
  readonly publicPart: Uint8Array;
  readonly privatePart: Uint8Array;
}

/** TPM2_Load: loads a sealed object below its parent key. */
export async function loadObject(
  tpm: TpmConnection,
  parent: LoadedKey,
  halves: SealedHalves,
  signal: AbortSignal,
): Promise<LoadedHandle> {
  const parameters = new WireWriter().sized(halves.privatePart).sized(halves.publicPart).finish();
  const command = {
    name: 'load',
    handles: [parent.handle],
    authorizations: [parent.auth],
    parameters,
  } as const;
  const response = await tpm.execute({ ...command, returnsHandle: true }, signal);
  const loaded = tpm.track(response.handle);
  response.parameters.sized('name', 66);
  response.parameters.end();
  return loaded;
}

/**
 * TPM2_ActivateCredential: decrypts a credential that was created for this EK and the Name of this AK, and for no other pair.
 * `credentialBlob` and `encryptedSeed` come from the verifier; the TPM checks them.
 */
export function activateCredential(
  tpm: TpmConnection,
  options: {
    readonly attestationKey: Pick<LoadedKey, 'handle' | 'auth'>;
    readonly endorsementKey: { readonly handle: number; readonly auth: Authorization };
    readonly credentialBlob: Uint8Array;
    readonly encryptedSeed: Uint8Array;
  },
  signal: AbortSignal,
): Promise<Uint8Array> {
  const { attestationKey, endorsementKey } = options;
  const command = {
    name: 'activateCredential',
    handles: [attestationKey.handle, endorsementKey.handle],
    authorizations: [attestationKey.auth, endorsementKey.auth],
    parameters: new WireWriter().sized(options.credentialBlob).sized(options.encryptedSeed).finish(),
  } as const;
  return tpm.ask(command, signal, (reader) => reader.sized('certInfo', 64));
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
