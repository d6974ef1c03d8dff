import { password, type Authorization } from '../command.ts';
import type { TpmConnection } from '../connection.ts';
import { malformed, TpmError } from '../errors.ts';
import {
  COUNTER_ATTRIBUTES,
  encodeNvPublic,
  NV_ATTRIBUTE,
  nvNameOf,
  parseNvPublic,
  type NvPublic,
} from '../structures/nv-public.ts';
import { WireReader, WireWriter } from '../wire.ts';
import { HIERARCHY } from './keys.ts';

/** Bytes for each TPM2_NV_Read and TPM2_NV_Write. TPM_PT_NV_BUFFER_MAX is at least this. */
const CHUNK_BYTES = 512;
const MAX_INDEX_BYTES = 8192;
const COUNTER_BYTES = 8;

/** TPM2_NV_ReadPublic: the public area and the Name, or undefined when the index is not defined. */
export async function readNvPublic(
  tpm: TpmConnection,
  index: number,
  signal: AbortSignal,
): Promise<NvPublic | undefined> {
  try {
    const { parameters: reader } = await tpm.execute({ name: 'nvReadPublic', handles: [index] }, signal);
    const nv = parseNvPublic(reader.sized('public area', 256));
    const name = reader.sized('name', 66);
    reader.end();
    if (nv.index !== index || Buffer.compare(name, nvNameOf(nv)) !== 0)
      throw malformed('an NV public area: it is for another index');
    return nv;
  } catch (error) {
    if (error instanceof TpmError && error.code === 'tpm-handle-missing') return undefined;
    throw error;
  }
}

/** TPM2_NV_DefineSpace in the owner hierarchy. */
export async function defineNv(
  tpm: TpmConnection,
  nv: NvPublic,
  authValue: Uint8Array,
  signal: AbortSignal,
): Promise<void> {
  const parameters = new WireWriter().sized(authValue).sized(encodeNvPublic(nv)).finish();
  const command = {
    name: 'nvDefineSpace',
    handles: [HIERARCHY.owner],
    authorizations: [password()],
    parameters,
  } as const;
  (await tpm.execute(command, signal)).parameters.end();
}

/** TPM2_NV_UndefineSpace in the owner hierarchy. */
export async function undefineNv(tpm: TpmConnection, index: number, signal: AbortSignal): Promise<void> {
  const command = {
    name: 'nvUndefineSpace',
    handles: [HIERARCHY.owner, index],
    authorizations: [password()],
  } as const;
  (await tpm.execute(command, signal)).parameters.end();
}

/** Reads a whole index, with its own authorization if the index allows that, else with the owner's (empty) password. */
export async function readNv(
  tpm: TpmConnection,
  index: number,
  signal: AbortSignal,
  auth: Authorization = password(),
): Promise<Uint8Array> {
  const nv = await readNvPublic(tpm, index, signal);
  if (nv === undefined)
    throw new TpmError('tpm-handle-missing', `NV index 0x${index.toString(16)} not found`);
  if (nv.sizeBytes > MAX_INDEX_BYTES) throw malformed(`an NV index of ${nv.sizeBytes} bytes`);
  const authHandle = (nv.attributes & NV_ATTRIBUTE.authRead) !== 0 ? index : HIERARCHY.owner;
  const parts: Uint8Array[] = [];
  for (let offset = 0; offset < nv.sizeBytes; offset += CHUNK_BYTES) {
    const size = Math.min(CHUNK_BYTES, nv.sizeBytes - offset);
    const parameters = new WireWriter().u16(size).u16(offset).finish();
    const { parameters: reader } = await tpm.execute(
      { name: 'nvRead', handles: [authHandle, index], authorizations: [auth], parameters },
      signal,
    );
    const part = reader.sized('data', size);
    reader.end();
    if (part.length !== size) throw malformed(`NV data: ${part.length} of ${size} bytes`);
    parts.push(part);
  }
  return new Uint8Array(Buffer.concat(parts));
}

/** TPM2_NV_Write: writes an ordinary index from its start. */
export async function writeNv(
  tpm: TpmConnection,
  options: { readonly index: number; readonly auth: Authorization; readonly data: Uint8Array },
  signal: AbortSignal,
): Promise<void> {
  const { index, auth, data } = options;
  for (let offset = 0; offset < data.length; offset += CHUNK_BYTES) {
    const chunk = data.subarray(offset, offset + CHUNK_BYTES);
    const parameters = new WireWriter().sized(chunk).u16(offset).finish();
    const command = { name: 'nvWrite', handles: [index, index], authorizations: [auth], parameters } as const;
    (await tpm.execute(command, signal)).parameters.end();
  }
}

/**
 * Defines a counter and increments it once. It starts above every value that any counter of this TPM ever had (Part 1,
 * 37.2.5), so that undefining and defining it again cannot set it back.
 */
export async function defineCounter(
  tpm: TpmConnection,
  index: number,
  authValue: Uint8Array,
  signal: AbortSignal,
): Promise<void> {
  const nv: NvPublic = {
    index,
    nameHash: 'sha256',
    attributes: COUNTER_ATTRIBUTES,
    authPolicy: new Uint8Array(),
    sizeBytes: COUNTER_BYTES,
  };
  await defineNv(tpm, nv, authValue, signal);
  await incrementCounter(tpm, index, password(authValue), signal);
}

/** TPM2_NV_Increment. */
export async function incrementCounter(
  tpm: TpmConnection,
  index: number,
  auth: Authorization,
  signal: AbortSignal,
): Promise<void> {
  const command = { name: 'nvIncrement', handles: [index, index], authorizations: [auth] } as const;
  (await tpm.execute(command, signal)).parameters.end();
}

/** Reads the value of a counter. */
export async function readCounter(
  tpm: TpmConnection,
  index: number,
  auth: Authorization,
  signal: AbortSignal,
): Promise<bigint> {
  const reader = new WireReader(await readNv(tpm, index, signal, auth), 'a counter');
  const value = reader.u64('value');
  reader.end();
  return value;
}
