import { z } from 'zod';
import { parseJson } from '../bytes.ts';
import type { Collateral } from '../rules.ts';
import {
  attributeOf,
  decodeBase64,
  parseCertificate,
  parseCrl,
  X509Error,
  type DistinguishedName,
} from '../x509/index.ts';
import { malformed } from './errors.ts';
import { withoutDuplicates, type CollateralItem } from './collateral-item.ts';

/** The documents that the operator's CLI fetched and the cluster distributes, so that verification needs no internet. */
export interface CollateralBundle {
  /** When the bundle was created, by the clock of the workstation. */
  readonly assembledMs: number;
  readonly items: readonly CollateralItem[];
}

const MAX_BUNDLE_BYTES = 8 << 20;

/** Size limit of a bundle that is uploaded: an etcd value has at most 1.5 MiB, and base64 adds a third. */
export const MAX_UPLOAD_BYTES = 1_000_000;
const ORGANIZATION = '2.5.4.10';

const base64 = z.string().transform((text, context) => {
  const bytes = decodeBase64(text);
  if (bytes === undefined) context.addIssue({ code: 'custom', message: 'base64 not in its canonical form' });
  return bytes ?? new Uint8Array();
});

const schema = z.strictObject({
  version: z.literal(1),
  assembled: z.iso.datetime().transform((text) => Date.parse(text)),
  items: z.array(
    z.union([
      z.strictObject({ kind: z.enum(['certificate', 'crl']), der: base64 }),
      z.strictObject({ kind: z.enum(['tcb-info', 'qe-identity']), text: z.string(), signature: base64 }),
    ]),
  ),
});

/** Encodes a bundle as JSON. The texts that Intel signed are strings in it, so that they are never reformatted. */
export function encodeBundle(bundle: CollateralBundle): string {
  const items = bundle.items.map((item) =>
    'der' in item
      ? { kind: item.kind, der: toBase64(item.der) }
      : { kind: item.kind, text: item.text, signature: toBase64(item.signature) },
  );
  return `${JSON.stringify({ version: 1, assembled: new Date(bundle.assembledMs).toISOString(), items }, undefined, 1)}\n`;
}

/** An encoded bundle, as text or as its UTF-8 bytes. @throws CollateralError and nothing else */
export function parseBundle(encoded: string | Uint8Array): CollateralBundle {
  const text = typeof encoded === 'string' ? encoded : Buffer.from(encoded).toString('utf8');
  if (text.length > MAX_BUNDLE_BYTES)
    throw malformed(`reading a collateral bundle: ${text.length} bytes, at most ${MAX_BUNDLE_BYTES} allowed`);
  const parsed = schema.safeParse(parseJson(text));
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    throw malformed(`reading a collateral bundle: ${issue?.path.join('.') ?? ''}: ${issue?.message ?? ''}`);
  }
  return { assembledMs: parsed.data.assembled, items: parsed.data.items };
}

/** Collateral in the form that validators of processor evidence take. */
export type ProcessorCollateral = Required<Pick<Collateral, 'snp' | 'tdx'>>;

/**
 * Sorts documents by manufacturer. `seenEvaluationNumber`: the highest evaluation number used before; documents with a
 * lower one are refused.
 */
export function collateralFrom(
  items: readonly CollateralItem[],
  seenEvaluationNumber?: number,
): ProcessorCollateral {
  const all = withoutDuplicates(items);
  const ders = (kind: 'certificate' | 'crl', maker: string): Uint8Array[] =>
    all.flatMap((item) =>
      'der' in item && item.kind === kind && manufacturerOf(item) === maker ? [item.der] : [],
    );
  const texts = (kind: 'tcb-info' | 'qe-identity') =>
    all.flatMap((item) =>
      !('der' in item) && item.kind === kind ? [{ text: item.text, signature: item.signature }] : [],
    );
  return {
    snp: { certificates: ders('certificate', 'amd'), crls: ders('crl', 'amd') },
    tdx: {
      certificates: ders('certificate', 'intel'),
      crls: ders('crl', 'intel'),
      tcbInfos: texts('tcb-info'),
      qeIdentities: texts('qe-identity'),
      ...(seenEvaluationNumber === undefined ? {} : { seenEvaluationNumber }),
    },
  };
}

/** The manufacturer, by the organization in the issuer name. A forged name is refused when the document is verified. */
export function manufacturerOf(
  item: Extract<CollateralItem, { readonly der: Uint8Array }>,
): 'amd' | 'intel' | undefined {
  const organization = attributeOf(nameOf(item), ORGANIZATION);
  if (organization === 'Advanced Micro Devices') return 'amd';
  return organization === 'Intel Corporation' ? 'intel' : undefined;
}

function nameOf(item: Extract<CollateralItem, { readonly der: Uint8Array }>): DistinguishedName {
  try {
    return item.kind === 'crl' ? parseCrl(item.der).issuer : parseCertificate(item.der).issuer;
  } catch (cause) {
    throw cause instanceof X509Error ? malformed(`reading a ${item.kind}`, cause) : cause;
  }
}

function toBase64(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('base64');
}
