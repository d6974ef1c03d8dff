import { formatExpiry } from '../../internal/clock/index.ts';
import type { NodeView } from '../cluster/index.ts';

/** A node has up to thirty certificates; those that expire first are the ones that matter. */
const SHOWN = 3;
/** As the doctor: no certificate of a node is renewed later than a day before it expires, except certificates of a few hours. */
const SOON_MS = 24 * 60 * 60 * 1000;

type Certificate = NodeView['certificates'][number];

/**
 * Lines with the certificates of a node: those that expire first, and all that have expired or expire within a day. All of them
 * with `isWide`.
 */
export function certificateLines(
  certificates: readonly Certificate[],
  { nowMs, isWide }: { readonly nowMs: number; readonly isWide: boolean },
): readonly string[] {
  const sorted = certificates.toSorted((a, b) => a.notAfterMs - b.notAfterMs);
  const isShown = ({ notAfterMs }: Certificate, index: number): boolean =>
    isWide || index < SHOWN || notAfterMs - nowMs <= SOON_MS;
  const shown = sorted.filter(isShown);
  const width = 2 + Math.max(...shown.map(({ name }) => name.length), 0);
  const more = sorted.length - shown.length;
  return [
    ...shown.map(({ name, notAfterMs }) => `${name.padEnd(width)}${formatExpiry(notAfterMs, nowMs)}`),
    ...(more === 0
      ? []
      : [`and ${more} more, which ${more === 1 ? 'expires' : 'expire'} later: --output wide shows all`]),
  ];
}
