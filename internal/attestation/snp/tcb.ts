import { LittleEndianReader } from '../bytes.ts';
import type { SnpProduct } from './product.ts';

/** Security versions of the firmware components. `fmc` exists since Turin. */
export interface SnpTcb {
  readonly fmc?: number;
  readonly bootloader: number;
  readonly tee: number;
  readonly snp: number;
  readonly microcode: number;
}

/** Name of a firmware component. */
export type SnpTcbPart = keyof SnpTcb;

/** Offsets of the components in TCB_VERSION (56860 §2.2; different since Turin). */
const OLD_LAYOUT = { bootloader: 0, tee: 1, snp: 6, microcode: 7 } as const;
const TURIN_LAYOUT = { fmc: 0, bootloader: 1, tee: 2, snp: 3, microcode: 7 } as const;

/** The offsets for a product. */
export function tcbLayout(product: SnpProduct): Readonly<Record<SnpTcbPart, number>> | typeof OLD_LAYOUT {
  return product === 'Turin' ? TURIN_LAYOUT : OLD_LAYOUT;
}

/** Parses the eight bytes of TCB_VERSION for a product. */
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

/** Whether every component has at least its minimum. A component that is missing in `tcb` is too low. */
export function isTcbAtLeast(tcb: SnpTcb, minimum: SnpTcb): boolean {
  return parts(minimum).every(([part, level]) => (tcb[part] ?? -1) >= level);
}

/** Whether all components are equal. */
export function isSameTcb(a: SnpTcb, b: SnpTcb): boolean {
  return isTcbAtLeast(a, b) && isTcbAtLeast(b, a);
}

/** The TCB as text: `bootloader 3, tee 0, snp 8, microcode 115`. */
export function describeTcb(tcb: SnpTcb): string {
  return parts(tcb)
    .map(([part, level]) => `${part} ${level}`)
    .join(', ');
}

function parts(tcb: SnpTcb): [SnpTcbPart, number][] {
  return Object.entries(tcb) as [SnpTcbPart, number][];
}
