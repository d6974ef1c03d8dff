import { hashId, hashSizeBytes, type HashName } from '../algorithms.ts';
import { password } from '../command.ts';
import type { TpmConnection } from '../connection.ts';
import { malformed, TpmError } from '../errors.ts';
import { encodePcrSelection, readPcrSelection, type PcrSelection } from '../structures/pcr-selection.ts';
import { WireWriter } from '../wire.ts';

const MAX_TRIES = 5;
const DIGESTS_PER_CALL = 8;

/**
 * TPM2_PCR_Read over any number of PCRs. A command returns at most eight digests, so several commands may be needed. If
 * the PCR update counter of the TPM changes in between, all PCRs are read again, so that the values belong to one
 * state.
 * @throws TpmError `tpm-pcrs-moving` after five attempts
 */
export async function readPcrs(
  tpm: TpmConnection,
  selection: PcrSelection,
  signal: AbortSignal,
): Promise<ReadonlyMap<number, Uint8Array>> {
  for (let attempt = 0; attempt < MAX_TRIES; attempt++) {
    const values = await tryReadPcrs(tpm, selection, signal);
    if (values !== undefined) return values;
  }
  throw new TpmError(
    'tpm-pcrs-moving',
    `reading PCRs ${selection.pcrs.join(',')}: a PCR changed during each attempt`,
  );
}

async function tryReadPcrs(
  tpm: TpmConnection,
  { hash, pcrs }: PcrSelection,
  signal: AbortSignal,
): Promise<ReadonlyMap<number, Uint8Array> | undefined> {
  const values = new Map<number, Uint8Array>();
  let counter: number | undefined;
  for (let left = [...pcrs]; left.length > 0; left = left.filter((pcr) => !values.has(pcr))) {
    const part = await readSome(tpm, { hash, pcrs: left }, signal);
    if (counter !== undefined && counter !== part.counter) return undefined;
    counter = part.counter;
    for (const [pcr, value] of part.values) values.set(pcr, value);
  }
  return new Map([...values].sort(([a], [b]) => a - b));
}

async function readSome(
  tpm: TpmConnection,
  asked: PcrSelection,
  signal: AbortSignal,
): Promise<{ readonly counter: number; readonly values: ReadonlyMap<number, Uint8Array> }> {
  const { parameters: reader } = await tpm.execute(
    { name: 'pcrRead', parameters: encodePcrSelection(asked) },
    signal,
  );
  const counter = reader.u32('update counter');
  const given = readPcrSelection(reader);
  const count = reader.u32('number of digests');
  if (count === 0 || count > DIGESTS_PER_CALL || count !== given.pcrs.length || given.hash !== asked.hash) {
    throw malformed(`PCR values: ${count} digests for PCRs ${given.pcrs.join(',')} of ${given.hash}`);
  }
  const size = hashSizeBytes(asked.hash);
  const values = new Map<number, Uint8Array>();
  for (const pcr of given.pcrs) {
    const value = reader.sized(`PCR ${pcr}`, size);
    if (value.length !== size || !asked.pcrs.includes(pcr)) throw malformed(`PCR values: PCR ${pcr}`);
    values.set(pcr, value);
  }
  reader.end();
  return { counter, values };
}

/** TPM2_PCR_Extend: PCR := H(PCR || digest). Not idempotent: read the PCR first if it must be extended only once. */
export async function extendPcr(
  tpm: TpmConnection,
  options: { readonly pcr: number; readonly hash: HashName; readonly digest: Uint8Array },
  signal: AbortSignal,
): Promise<void> {
  if (options.digest.length !== hashSizeBytes(options.hash))
    throw new RangeError(`a ${options.hash} digest has ${hashSizeBytes(options.hash)} bytes`);
  const parameters = new WireWriter().u32(1).u16(hashId(options.hash)).bytes(options.digest).finish();
  await tpm.run(
    { name: 'pcrExtend', handles: [options.pcr], authorizations: [password()], parameters },
    signal,
  );
}
