import { digestOf, hashId, hashName, type HashName } from '../algorithms.ts';
import { WireWriter, type WireReader } from '../wire.ts';

/** Number of PCRs of a PC (TCG PC Client Platform TPM Profile): three octets in a selection. */
export const PCR_COUNT = 24;
const SELECT_BYTES = 3;

/** PCRs of one bank, ascending. */
export interface PcrSelection {
  readonly hash: HashName;
  readonly pcrs: readonly number[];
}

/** Encodes TPML_PCR_SELECTION with one bank. */
export function encodePcrSelection(selection: PcrSelection): Uint8Array {
  const octets = new Uint8Array(SELECT_BYTES);
  for (const pcr of selection.pcrs) {
    if (!Number.isInteger(pcr) || pcr < 0 || pcr >= PCR_COUNT) throw new RangeError(`PCR ${pcr}`);
    octets[pcr >> 3] = (octets[pcr >> 3] ?? 0) | (1 << (pcr & 7));
  }
  return new WireWriter().u32(1).u16(hashId(selection.hash)).u8(SELECT_BYTES).bytes(octets).finish();
}

/** Reads TPML_PCR_SELECTION with one bank of an accepted hash and three octets. It may select no PCR. Throws TpmError. */
export function readPcrSelection(reader: WireReader): PcrSelection {
  const count = reader.u32('number of PCR selections');
  reader.expect(count, 1, 'number of PCR selections');
  const hash = hashName(reader.u16('PCR bank'), 'PCR bank');
  reader.expect(reader.u8('octets of PCR selection'), SELECT_BYTES, 'octets of PCR selection');
  const octets = reader.bytes(SELECT_BYTES, 'PCR selection');
  const pcrs = Array.from({ length: PCR_COUNT }, (_, pcr) => pcr).filter(
    (pcr) => ((octets[pcr >> 3] ?? 0) & (1 << (pcr & 7))) !== 0,
  );
  return { hash, pcrs };
}

/** The PCR digest that a quote signs and PolicyPCR requires: the hash over the values in the order of their indices. */
export function pcrDigest(values: ReadonlyMap<number, Uint8Array>, hash: HashName): Uint8Array {
  const ordered = [...values].sort(([a], [b]) => a - b).map(([, value]) => value);
  return digestOf(hash, ...ordered);
}
