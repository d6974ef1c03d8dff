import { createHash } from 'node:crypto';
import type { SignedJson } from '../tdx/rules.ts';

/** A document of a manufacturer. Not trusted because it is in a bundle: validators verify each. */
export type CollateralItem =
  | { readonly kind: 'certificate' | 'crl'; readonly der: Uint8Array }
  | ({ readonly kind: 'tcb-info' | 'qe-identity' } & SignedJson);

/** Removes duplicate documents. */
export function withoutDuplicates(items: readonly CollateralItem[]): readonly CollateralItem[] {
  return [...new Map(items.map((item) => [identityOf(item), item])).values()];
}

function identityOf(item: CollateralItem): string {
  const hash = createHash('sha256').update(item.kind);
  const content = 'der' in item ? [item.der] : [item.text, item.signature];
  for (const part of content) hash.update(part);
  return hash.digest('hex');
}
