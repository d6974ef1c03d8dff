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
import { HIERARCHY } from './hierarchies.ts';

/** Bytes for each TPM2_NV_Read and TPM2_NV_Write. Every TPM allows at least this (TPM_PT_NV_BUFFER_MAX). */
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
    const { nv, name } = await tpm.ask({ name: 'nvReadPublic', handles: [index] }, signal, (reader) => ({
      nv: parseNvPublic(reader.sized('public area', 256)),
      name: reader.sized('name', 66),
    }));
    if (nv.index !== index || Buffer.compare(name, nvNameOf(nv)) !== 0)
      throw malformed('an NV public area: it is for another index');
    return nv;
  } catch (error) {
    if (error instanceof TpmError && error.code === 'tpm-handle-missing') return undefined;
    throw error;
  }
}

/** TPM2_NV_DefineSpace in the owner hierarchy. */
export function defineNv(
  tpm: TpmConnection,
  nv: NvPublic,
  authValue: Uint8Array,
  signal: AbortSignal,
): Promise<void> {
  const parameters = new WireWriter().sized(authValue).sized(encodeNvPublic(nv)).finish();
  const authorizations = [password()];
  return tpm.run({ name: 'nvDefineSpace', handles: [HIERARCHY.owner], authorizations, parameters }, signal);
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
    const command = {
      name: 'nvRead',
      handles: [authHandle, index],
      authorizations: [auth],
      parameters,
    } as const;
    const part = await tpm.ask(command, signal, (reader) => reader.sized('data', size));
    if (part.length !== size) throw malformed(`NV data: ${part.length} of ${size} bytes`);
    parts.push(part);
  }
  return new Uint8Array(Buffer.concat(parts));
}

/**
 * Defines a counter and increments it once. The TPM starts a counter above every value that any of its counters ever
 * had (Part 1, 37.2.5), so that undefining and defining it again cannot set it back.
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
export function incrementCounter(
  tpm: TpmConnection,
  index: number,
  auth: Authorization,
  signal: AbortSignal,
): Promise<void> {
  return tpm.run({ name: 'nvIncrement', handles: [index, index], authorizations: [auth] }, signal);
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
