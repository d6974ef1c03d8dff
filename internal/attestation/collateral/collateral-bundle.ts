import { z } from 'zod';
import { describeShape } from '../../errors/index.ts';
import { parseJson } from '../bytes.ts';
import type { Collateral } from '../rules.ts';
import { attributeOf, decodeBase64, parseCertificate, parseCrl, X509Error } from '../x509/index.ts';
import { malformed } from './errors.ts';

const MAX_BUNDLE_BYTES = 8 << 20;
/** Size limit of a bundle that is uploaded: an etcd value has at most 1.5 MiB, and base64 adds a third. */
export const MAX_UPLOAD_BYTES = 1_000_000;
const ORGANIZATION = '2.5.4.10';

const canonicalBase64 = z
  .string()
  .refine((text) => decodeBase64(text) !== undefined, 'base64 not in its canonical form');
const isBytes = (value: unknown): boolean => value instanceof Uint8Array;
const base64 = z.codec(canonicalBase64, z.custom<Uint8Array>(isBytes), {
  decode: (text) => new Uint8Array(Buffer.from(text, 'base64')),
  encode: (bytes) => Buffer.from(bytes).toString('base64'),
});
const itemShape = z.union([
  z.strictObject({ kind: z.enum(['certificate', 'crl']), der: base64 }).readonly(),
  // Intel signed these texts. They are strings in a bundle, so that they are never reformatted.
  z
    .strictObject({ kind: z.enum(['tcb-info', 'qe-identity']), text: z.string(), signature: base64 })
    .readonly(),
]);
const shape = z.strictObject({
  version: z.literal(1),
  assembled: z.codec(z.iso.datetime(), z.number(), {
    decode: (text) => Date.parse(text),
    encode: (ms) => new Date(ms).toISOString(),
  }),
  items: z.array(itemShape),
});

/**
 * A document that a manufacturer signed. Being in a bundle does not make it trusted: validators verify each document.
 */
export type CollateralItem = z.output<typeof itemShape>;
/** A certificate or a CRL. */
export type DerItem = Extract<CollateralItem, { readonly der: Uint8Array }>;

/** The documents that the operator's CLI fetched and the cluster distributes, so that verification needs no internet. */
export interface CollateralBundle {
  /** When the bundle was created, by the clock of the workstation. */
  readonly assembledMs: number;
  readonly items: readonly CollateralItem[];
}

/** Encodes a bundle as JSON. */
export function encodeBundle({ assembledMs, items }: CollateralBundle): string {
  const encoded = z.encode(shape, { version: 1, assembled: assembledMs, items: [...items] });
  return `${JSON.stringify(encoded, undefined, 1)}\n`;
}

/** An encoded bundle, as text or as its UTF-8 bytes. @throws CollateralError and nothing else */
export function parseBundle(encoded: string | Uint8Array, maxBytes = MAX_BUNDLE_BYTES): CollateralBundle {
  if (encoded.length > maxBytes)
    throw malformed(`reading a collateral bundle: ${encoded.length} bytes, at most ${maxBytes} allowed`);
  const text = typeof encoded === 'string' ? encoded : Buffer.from(encoded).toString('utf8');
  const parsed = shape.safeParse(parseJson(text));
  if (!parsed.success) throw malformed(`reading a collateral bundle: ${describeShape(parsed.error)}`);
  return { assembledMs: parsed.data.assembled, items: parsed.data.items };
}

/** Whether a text is an encoded bundle. */
export function isBundle(text: string): boolean {
  return shape.safeParse(parseJson(text)).success;
}

/** Removes duplicate documents. */
export function withoutDuplicates(items: readonly CollateralItem[]): readonly CollateralItem[] {
  return [...new Map(items.map((item) => [JSON.stringify(z.encode(itemShape, item)), item])).values()];
}

/** Collateral in the form that validators of processor evidence take. */
type ProcessorCollateral = Required<Pick<Collateral, 'snp' | 'tdx'>>;

/** The parts of a `VerifiedBundle` that workspaces, agents and etcd store. */
interface StoredBundle {
  /** The encoded bundle; undefined: none was stored yet. */
  readonly bundle: string | Uint8Array | undefined;
  readonly evaluationNumber: number;
}

/** A bundle that passed every check (`verifyBundle()`). */
export class VerifiedBundle implements CollateralBundle {
  /** An empty bundle, for the time before the first bundle. */
  static readonly NONE = new VerifiedBundle({ assembledMs: 0, items: [] }, 0);
  readonly assembledMs: number;
  readonly items: readonly CollateralItem[];
  /** The highest tcbEvaluationDataNumber of Intel in this bundle and all bundles before it. */
  readonly evaluationNumber: number;
  #forValidators: Partial<ProcessorCollateral> | undefined;

  constructor({ assembledMs, items }: CollateralBundle, evaluationNumber: number) {
    this.assembledMs = assembledMs;
    this.items = items;
    this.evaluationNumber = evaluationNumber;
  }

  /**
   * Loads a bundle that was verified before it was stored. Validators verify each document again.
   * @throws CollateralError
   */
  static load(stored: StoredBundle | undefined): VerifiedBundle {
    if (stored === undefined) return VerifiedBundle.NONE;
    const { bundle, evaluationNumber } = stored;
    return new VerifiedBundle(
      bundle === undefined ? VerifiedBundle.NONE : parseBundle(bundle),
      evaluationNumber,
    );
  }

  /**
   * The collateral for validators, the same object at each call. Empty if the bundle has no documents; validators then
   * refuse evidence that needs them.
   */
  get forValidators(): Partial<ProcessorCollateral> {
    this.#forValidators ??= this.items.length === 0 ? {} : collateralFrom(this.items, this.evaluationNumber);
    return this.#forValidators;
  }
}

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
export function manufacturerOf({ kind, der }: DerItem): 'amd' | 'intel' | undefined {
  try {
    const { issuer } = kind === 'crl' ? parseCrl(der) : parseCertificate(der);
    const organization = attributeOf(issuer, ORGANIZATION);
    if (organization === 'Advanced Micro Devices') return 'amd';
    return organization === 'Intel Corporation' ? 'intel' : undefined;
  } catch (cause) {
    throw cause instanceof X509Error ? malformed(`reading a ${kind}`, cause) : cause;
  }
}
