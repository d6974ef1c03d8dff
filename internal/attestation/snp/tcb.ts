import { LittleEndianReader } from '../bytes.ts';
import type { SnpProduct } from './product.ts';

/** Security patch levels of the firmware parts. `fmc` exists from Turin on. */
export interface SnpTcb {
  readonly fmc?: number;
  readonly bootloader: number;
  readonly tee: number;
  readonly snp: number;
  readonly microcode: number;
}

export type SnpTcbPart = keyof SnpTcb;

/** Where in TCB_VERSION each part lies (56860 §2.2; Turin moved them and added the FMC). */
const OLD_LAYOUT = { bootloader: 0, tee: 1, snp: 6, microcode: 7 } as const;
const TURIN_LAYOUT = { fmc: 0, bootloader: 1, tee: 2, snp: 3, microcode: 7 } as const;

export function tcbLayout(product: SnpProduct): Readonly<Record<SnpTcbPart, number>> | typeof OLD_LAYOUT {
  return product === 'Turin' ? TURIN_LAYOUT : OLD_LAYOUT;
}

/** Reads the eight bytes of a TCB_VERSION as this product means them. */
export function parseTcb(raw: Uint8Array, product: SnpProduct): SnpTcb {
  const at = new LittleEndianReader(raw);
  const layout = tcbLayout(product);
  const common = {
    bootloader: at.u8(layout.bootloader),
    tee: at.u8(layout.tee),
    snp: at.u8(layout.snp),
    microcode: at.u8(layout.microcode),
  };
  return 'fmc' in layout ? { fmc: at.u8(layout.fmc), ...common } : common;
}

/** Whether every part is at least the minimum's. A part the minimum names and the value lacks counts as too low. */
export function isTcbAtLeast(tcb: SnpTcb, minimum: SnpTcb): boolean {
  return parts(minimum).every(([part, level]) => (tcb[part] ?? -1) >= level);
}

export function isSameTcb(a: SnpTcb, b: SnpTcb): boolean {
  return isTcbAtLeast(a, b) && isTcbAtLeast(b, a);
}

/** `bootloader 3, tee 0, snp 8, microcode 115`. */
export function describeTcb(tcb: SnpTcb): string {
  return parts(tcb)
    .map(([part, level]) => `${part} ${level}`)
    .join(', ');
}

function parts(tcb: SnpTcb): [SnpTcbPart, number][] {
  return Object.entries(tcb) as [SnpTcbPart, number][];
}
