import { X509Error } from './errors.ts';

export type PemLabel = 'CERTIFICATE' | 'X509 CRL' | 'PUBLIC KEY' | 'PRIVATE KEY';

export interface PemOptions {
  readonly label: PemLabel;
  readonly maxBlocks: number;
  /** Empty lines around blocks, as some files of AMD have them. For the operator's files, never for evidence. */
  readonly allowBlankLines?: boolean;
}

const LINE_LENGTH = 64;
const MAX_TEXT_BYTES = 1 << 20;

/**
 * The blocks of a PEM text, in order. RFC 7468 in its strict form: nothing before, between or after the blocks, every
 * line but the last of a block 64 characters long, one kind of line end, and base64 that encodes back to the same
 * characters, so that no unsigned bit of the text can be altered.
 */
export function parsePem(text: string, options: PemOptions): Uint8Array[] {
  const { label, maxBlocks } = options;
  if (text.length > MAX_TEXT_BYTES) throw malformed(label, 'larger than 1 MiB');
  const lines = splitLines(text, label).filter((line) => line !== '' || options.allowBlankLines !== true);
  const blocks: Uint8Array[] = [];
  for (let at = 0; at < lines.length;) {
    if (blocks.length === maxBlocks) throw malformed(label, `more than ${maxBlocks} blocks`);
    if (lines[at] !== `-----BEGIN ${label}-----`) throw malformed(label, `line ${at + 1} begins no block`);
    const end = lines.indexOf(`-----END ${label}-----`, at);
    if (end < 0) throw malformed(label, 'a block without end');
    blocks.push(decodeBody(lines.slice(at + 1, end), label));
    at = end + 1;
  }
  if (blocks.length === 0) throw malformed(label, 'no block');
  return blocks;
}

/** Standard base64 in its only canonical form: padded, no spare bits, nothing else. Undefined if it is not that. */
export function decodeBase64(text: string): Uint8Array | undefined {
  const bytes = Buffer.from(text, 'base64');
  return bytes.toString('base64') === text ? new Uint8Array(bytes) : undefined;
}

/** Intel's files end without, with one, or (in quotes) with a final line end; CRLF and LF are both in use, never mixed. */
function splitLines(text: string, label: string): string[] {
  const separator = text.includes('\r\n') ? '\r\n' : '\n';
  const lines = text.split(separator);
  if (lines.at(-1) === '') lines.pop();
  if (lines.some((line) => /[\r\n]/.test(line))) throw malformed(label, 'mixed line ends');
  return lines;
}

function decodeBody(lines: readonly string[], label: string): Uint8Array {
  const last = lines.at(-1);
  if (last === undefined) throw malformed(label, 'an empty block');
  if (last.length > LINE_LENGTH || lines.slice(0, -1).some((line) => line.length !== LINE_LENGTH)) {
    throw malformed(label, `a line of another length than ${LINE_LENGTH}`);
  }
  const bytes = decodeBase64(lines.join(''));
  if (bytes === undefined || bytes.length === 0) throw malformed(label, 'base64 not in its canonical form');
  return bytes;
}

function malformed(label: string, what: string): X509Error {
  return new X509Error('x509-pem-malformed', `reading PEM of kind ${label}: ${what}`);
}
