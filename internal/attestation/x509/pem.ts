import { X509Error } from './errors.ts';

/** Kind of a PEM block. */
type PemLabel = 'CERTIFICATE' | 'X509 CRL' | 'PUBLIC KEY' | 'PRIVATE KEY';

/** Options of `parsePem()`. */
interface PemOptions {
  readonly label: PemLabel;
  readonly maxBlocks: number;
  /** Accepts empty lines around blocks, which some files of AMD have. For files of the operator, never for evidence. */
  readonly allowBlankLines?: boolean;
}

const LINE_LENGTH = 64;
const MAX_TEXT_BYTES = 1 << 20;

/**
 * Parses the blocks of a PEM text (RFC 7468, strict form): nothing before, between or after the blocks, lines of 64 characters
 * except for the last one of a block, one kind of line end, canonical base64. So no bit of the text can be altered without a
 * refusal. Throws X509Error `x509-pem-malformed`.
 */
export function parsePem(text: string, options: PemOptions): Uint8Array[] {
  const { label, maxBlocks } = options;
  if (text.length > MAX_TEXT_BYTES) throw malformed(label, 'larger than 1 MiB');
  const lines = splitLines(text, label).filter((line) => line !== '' || options.allowBlankLines !== true);
  const blocks: Uint8Array[] = [];
  for (let at = 0; at < lines.length;) {
    if (blocks.length === maxBlocks) throw malformed(label, `more than ${maxBlocks} blocks`);
    if (lines[at] !== `-----BEGIN ${label}-----`)
      throw malformed(label, `line ${at + 1} does not start a block`);
    const end = lines.indexOf(`-----END ${label}-----`, at);
    if (end < 0) throw malformed(label, 'a block without end');
    blocks.push(decodeBody(lines.slice(at + 1, end), label));
    at = end + 1;
  }
  if (blocks.length === 0) throw malformed(label, 'no block');
  return blocks;
}

/** Decodes canonical base64 (padded, no spare bits); undefined for any other text. */
export function decodeBase64(text: string): Uint8Array | undefined {
  const bytes = Buffer.from(text, 'base64');
  return bytes.toString('base64') === text ? new Uint8Array(bytes) : undefined;
}

/** Files of Intel end with or without a line end and use either CRLF or LF, never both. */
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
