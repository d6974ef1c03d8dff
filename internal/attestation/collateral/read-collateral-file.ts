import { z } from 'zod';
import { parseJson } from '../bytes.ts';
import { parseCertificate, parseCrl, parsePem, X509Error } from '../x509/index.ts';
import { parseBundle, type CollateralItem } from './collateral-bundle.ts';
import { malformed } from './errors.ts';

const MAX_BLOCKS = 16;

/**
 * Parses a file of a manufacturer or a bundle, in any supported format. Only the form is checked; the validator that uses a
 * document verifies it. Throws only CollateralError.
 */
export function readCollateralFile(bytes: Uint8Array): readonly CollateralItem[] {
  try {
    if (bytes[0] === 0x30) return [derItem(bytes)];
    const text = Buffer.from(bytes).toString('utf8');
    return /^-----BEGIN /m.test(text) && !text.trimStart().startsWith('{') ? pemFile(text) : jsonItems(text);
  } catch (cause) {
    throw cause instanceof X509Error ? malformed('reading a collateral file', cause) : cause;
  }
}

/** Tries to parse a CRL first, because nothing at the start of the DER distinguishes certificates from CRLs. */
function derItem(der: Uint8Array): CollateralItem {
  try {
    parseCrl(der);
    return { kind: 'crl', der };
  } catch (error) {
    if (!(error instanceof X509Error)) throw error;
  }
  parseCertificate(der);
  return { kind: 'certificate', der };
}

/** A PEM file of an operator may contain certificates and CRLs in any order, and text around them (RFC 7468 §2). */
function pemFile(text: string): CollateralItem[] {
  const begun = text.match(/^-----BEGIN /gm)?.length ?? 0;
  if (begun > MAX_BLOCKS) throw malformed(`reading PEM: ${begun} blocks, at most ${MAX_BLOCKS}`);
  const blocks = text.match(/^-----BEGIN [^]*?^-----END [^\r\n]*$/gm) ?? [];
  if (blocks.length !== begun) throw malformed(`reading PEM: ${begun} blocks begin, ${blocks.length} end`);
  return blocks.flatMap(pemItems);
}

function pemItems(text: string): CollateralItem[] {
  const isCrl = text.startsWith('-----BEGIN X509 CRL-----');
  const label = isCrl ? 'X509 CRL' : 'CERTIFICATE';
  const ders = parsePem(text, { label, maxBlocks: MAX_BLOCKS, allowBlankLines: true });
  return ders.map((der) => ({ kind: isCrl ? 'crl' : 'certificate', der }));
}

function jsonItems(text: string): readonly CollateralItem[] {
  const answer = sliceAnswer(text);
  if (answer !== undefined) return [answer];
  const parsed = parseJson(text);
  const quoteCollateral = quoteCollateralSchema.safeParse(parsed);
  if (quoteCollateral.success) return quoteCollateralItems(quoteCollateral.data);
  return parseBundle(text).items;
}

/**
 * `{"tcbInfo":{…},"signature":"…"}` as the Intel PCS returns it. The signature covers the inner text, which is therefore
 * extracted unchanged.
 */
const ANSWERS = [
  { kind: 'tcb-info', prefix: '{"tcbInfo":' },
  { kind: 'qe-identity', prefix: '{"enclaveIdentity":' },
] as const;

function sliceAnswer(text: string): CollateralItem | undefined {
  const form = ANSWERS.find(({ prefix }) => text.startsWith(prefix));
  if (form === undefined) return undefined;
  const end = /,"signature":"([0-9a-fA-F]{128})"\}\s*$/.exec(text);
  if (end === null) throw malformed(`reading ${form.kind}: no signature at its end`);
  const signature = new Uint8Array(Buffer.from(end[1] ?? '', 'hex'));
  return { kind: form.kind, text: text.slice(form.prefix.length, end.index), signature };
}

const hex = z
  .string()
  .regex(/^([0-9a-fA-F]{2})+$/)
  .transform((text) => new Uint8Array(Buffer.from(text, 'hex')));

/** The JSON format in which several quote verification libraries store the collateral of a quote. */
const quoteCollateralSchema = z.object({
  tcb_info_issuer_chain: z.string(),
  tcb_info: z.string(),
  tcb_info_signature: hex,
  qe_identity_issuer_chain: z.string(),
  qe_identity: z.string(),
  qe_identity_signature: hex,
  root_ca_crl: hex,
  pck_crl: hex,
  pck_crl_issuer_chain: z.string(),
});

function quoteCollateralItems(parts: z.infer<typeof quoteCollateralSchema>): readonly CollateralItem[] {
  const chains = [parts.tcb_info_issuer_chain, parts.qe_identity_issuer_chain, parts.pck_crl_issuer_chain];
  return [
    ...chains.flatMap(pemItems),
    { kind: 'crl', der: parts.root_ca_crl },
    { kind: 'crl', der: parts.pck_crl },
    { kind: 'tcb-info', text: parts.tcb_info, signature: parts.tcb_info_signature },
    { kind: 'qe-identity', text: parts.qe_identity, signature: parts.qe_identity_signature },
  ];
}
