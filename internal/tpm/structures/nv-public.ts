import { digestOf, hashId, hashName, type HashName } from '../algorithms.ts';
import { WireReader, WireWriter } from '../wire.ts';

/** TPMS_NV_PUBLIC (Part 2, 13.5). */
export interface NvPublic {
  readonly index: number;
  readonly nameHash: HashName;
  readonly attributes: number;
  readonly authPolicy: Uint8Array;
  readonly sizeBytes: number;
}

/** Bits of TPMA_NV (Part 2, 13.4). */
export const NV_ATTRIBUTE = {
  ownerWrite: 1 << 1,
  authWrite: 1 << 2,
  counter: 1 << 4,
  ownerRead: 1 << 17,
  authRead: 1 << 18,
  noDa: 1 << 25,
  written: 1 << 29,
} as const;

/**
 * Attributes of a counter: the owner hierarchy, and everybody who knows the authorization value, may read and increment
 * it.
 */
export const COUNTER_ATTRIBUTES =
  NV_ATTRIBUTE.noDa |
  NV_ATTRIBUTE.authRead |
  NV_ATTRIBUTE.ownerRead |
  NV_ATTRIBUTE.counter |
  NV_ATTRIBUTE.authWrite |
  NV_ATTRIBUTE.ownerWrite;

/** Encodes TPMS_NV_PUBLIC. */
export function encodeNvPublic(nv: NvPublic): Uint8Array {
  return new WireWriter()
    .u32(nv.index)
    .u16(hashId(nv.nameHash))
    .u32(nv.attributes)
    .sized(nv.authPolicy)
    .u16(nv.sizeBytes)
    .finish();
}

/** Parses TPMS_NV_PUBLIC. Throws TpmError `tpm-malformed`. */
export function parseNvPublic(bytes: Uint8Array): NvPublic {
  const reader = new WireReader(bytes, 'an NV public area');
  const nv = {
    index: reader.u32('index'),
    nameHash: hashName(reader.u16('nameAlg'), 'nameAlg'),
    attributes: reader.u32('attributes'),
    authPolicy: reader.sized('authPolicy', 64),
    sizeBytes: reader.u16('size'),
  };
  reader.end();
  return nv;
}

/** The Name of an index. It contains the attributes, so it changes when the index is first written. */
export function nvNameOf(nv: NvPublic): Uint8Array {
  return new WireWriter()
    .u16(hashId(nv.nameHash))
    .bytes(digestOf(nv.nameHash, encodeNvPublic(nv)))
    .finish();
}
