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

/** TPMA_NV (Part 2, 13.4). */
export const NV_ATTRIBUTE = {
  ownerWrite: 1 << 1,
  authWrite: 1 << 2,
  counter: 1 << 4,
  ownerRead: 1 << 17,
  authRead: 1 << 18,
  noDa: 1 << 25,
  written: 1 << 29,
} as const;

/** The owner and whoever knows the index's authorization value may read and increment; it cannot be set. */
export const COUNTER_ATTRIBUTES =
  NV_ATTRIBUTE.noDa |
  NV_ATTRIBUTE.authRead |
  NV_ATTRIBUTE.ownerRead |
  NV_ATTRIBUTE.counter |
  NV_ATTRIBUTE.authWrite |
  NV_ATTRIBUTE.ownerWrite;

export function encodeNvPublic(nv: NvPublic): Uint8Array {
  return new WireWriter()
    .u32(nv.index)
    .u16(hashId(nv.nameHash))
    .u32(nv.attributes)
    .sized(nv.authPolicy)
    .u16(nv.sizeBytes)
    .finish();
}

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

/** An index's Name changes when it is first written, so it tells a fresh index from a used one. */
export function nvNameOf(nv: NvPublic): Uint8Array {
  return new WireWriter()
    .u16(hashId(nv.nameHash))
    .bytes(digestOf(nv.nameHash, encodeNvPublic(nv)))
    .finish();
}
