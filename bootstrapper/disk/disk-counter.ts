import {
  COUNTER_ATTRIBUTES,
  defineCounter,
  incrementCounter,
  NV_ATTRIBUTE,
  nvNameOf,
  password,
  readCounter,
  readNvPublic,
  TpmError,
  type NvPublic,
  type TpmConnection,
} from '../../internal/tpm/index.ts';

/**
 * The NV counter (a counter in the TPM) that determines which record of the state disk is current. The counter never
 * decreases: if it is deleted and defined again, it starts above every value that a counter of this TPM ever had. It
 * needs no authorization, because it can only be incremented.
 */
const INDEX = 0x0180636d;
const AUTH = password();
const COUNTER: NvPublic = {
  index: INDEX,
  nameHash: 'sha256',
  attributes: COUNTER_ATTRIBUTES | NV_ATTRIBUTE.written,
  authPolicy: new Uint8Array(),
  sizeBytes: 8,
};

/** The value; undefined on a machine that never had a state disk. @throws TpmError `tpm-nv-foreign` */
export async function readDiskCounter(tpm: TpmConnection, signal: AbortSignal): Promise<bigint | undefined> {
  const nv = await readNvPublic(tpm, INDEX, signal);
  if (nv === undefined) return undefined;
  const counting = { ...nv, attributes: nv.attributes | NV_ATTRIBUTE.written };
  if (Buffer.compare(nvNameOf(counting), nvNameOf(COUNTER)) !== 0)
    throw new TpmError(
      'tpm-nv-foreign',
      `using NV index 0x${INDEX.toString(16)} as the counter of the state disk`,
    );
  return (nv.attributes & NV_ATTRIBUTE.written) === 0 ? undefined : readCounter(tpm, INDEX, AUTH, signal);
}

/** Defines the counter if it has no value yet. */
export async function startDiskCounter(tpm: TpmConnection, signal: AbortSignal): Promise<void> {
  if ((await readDiskCounter(tpm, signal)) !== undefined) return;
  if ((await readNvPublic(tpm, INDEX, signal)) === undefined)
    return defineCounter(tpm, INDEX, new Uint8Array(), signal);
  await incrementDiskCounter(tpm, signal);
}

/** Increments the counter: every record with a lower sequence is refused from now on. */
export function incrementDiskCounter(tpm: TpmConnection, signal: AbortSignal): Promise<void> {
  return incrementCounter(tpm, INDEX, AUTH, signal);
}
