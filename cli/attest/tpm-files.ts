import { createPublicKey, type KeyObject } from 'node:crypto';
import { z } from 'zod';
import { describeShape } from '../../internal/errors/index.ts';
import type { QuoteParts } from '../../internal/attestation/tpm/index.ts';
import {
  canonicalSignature,
  encodeSignature,
  parsePublic,
  parseQuoteAttest,
  parseSignature,
  TpmError,
} from '../../internal/tpm/index.ts';
import { parseJson } from '../../internal/file/index.ts';
import { AttestError } from './errors.ts';
import type { NamedFile } from './inputs.ts';

/** A quote as TPM tools write it: several files, or one JSON object. */
export interface RawTpmQuote extends Omit<QuoteParts, 'attestationKey'> {
  /** The public area (TPMT_PUBLIC), or only the key, from a PEM file. */
  readonly attestationKey: Uint8Array | KeyObject;
  readonly eventLog: Uint8Array;
  /** The files that the parts came from, as the operator named them; none for parts of the evidence itself. */
  readonly files: Partial<Readonly<Record<QuoteFile, string>>>;
}

/** What a file beside a raw quote contains. */
export type QuoteFile = 'signature' | 'key' | 'log' | 'PCR values';

const ATTEST_MAGIC = 0xff544347;
const SIGNATURE_ALGORITHMS = [0x0014, 0x0016, 0x0018];
const KEY_TYPES = [0x0001, 0x0023];
const LOG_SIGNATURE = 'Spec ID Event03';
const DIGEST_BYTES = 32;
const MAX_PEM_BYTES = 16_384;

/** Whether these bytes are a raw quote, and not an evidence document of this project. */
export function isRawTpmQuote(bytes: Uint8Array): boolean {
  return startsWithMagic(bytes) || isJson(bytes);
}

/**
 * Assembles a raw quote. Files are recognized by their content: the signature (TPMT_SIGNATURE), the key (TPMT_PUBLIC,
 * TPM2B_PUBLIC or PEM), the event log, and the PCR values (JSON by index, concatenated in the order of the quote, or as
 * tpm2-tools serialize them). An unknown file is refused: it may be an event log that somebody altered so that nobody
 * recognizes it.
 * @throws AttestError `attest-evidence-incomplete`, `attest-endorsement-unknown`
 */
export function readRawTpmQuote(evidence: Uint8Array, files: readonly NamedFile[]): RawTpmQuote {
  if (isJson(evidence)) {
    refuseUnused(files, []);
    return fromJson(evidence);
  }
  const attest = evidence;
  const partOf = partsIn(files, selectedPcrs(attest).length * DIGEST_BYTES);
  const key = partOf('key');
  const signature = partOf('signature');
  const log = partOf('log');
  const rest = files.filter((file) => file !== key && file !== signature && file !== log);
  const pcrFile = partOf('PCR values') ?? rest[0];
  const attestationKey = key && (asPublicArea(key.bytes) ?? asPemKey(key.bytes));
  if (key === undefined || attestationKey === undefined || signature === undefined || pcrFile === undefined) {
    const missing = { key: attestationKey, signature, 'PCR values': pcrFile };
    const names = Object.entries(missing).flatMap(([name, found]) => (found === undefined ? [name] : []));
    throw new AttestError('attest-evidence-incomplete', `TPM quote incomplete: no ${names.join(', no ')}`);
  }
  refuseUnused(files, [key, signature, log, pcrFile]);
  return {
    attest,
    signature: canonical(signature.bytes, attestationKey),
    attestationKey,
    pcrValues: pcrValuesFrom(pcrFile.bytes, attest),
    eventLog: log?.bytes ?? new Uint8Array(),
    files: {
      key: key.name,
      signature: signature.name,
      'PCR values': pcrFile.name,
      ...(log && { log: log.name }),
    },
  };
}

/** Attestation keys passed with an evidence document, which contains everything else. */
export function publicAreasOf(files: readonly NamedFile[]): readonly Uint8Array[] {
  const keys = files.map(({ bytes }) => asPublicArea(bytes));
  refuseUnused(
    files,
    files.filter((_, at) => keys[at] !== undefined),
  );
  return keys.filter((key) => key !== undefined);
}

/**
 * The first file of each kind. Concatenated PCR values are recognized by their length, because they can start
 * with any bytes.
 */
function partsIn(
  files: readonly NamedFile[],
  valuesBytes: number,
): (part: QuoteFile) => NamedFile | undefined {
  const kinds = files.map(({ bytes: file }): QuoteFile | undefined => {
    if (valuesBytes > 0 && file.length === valuesBytes) return 'PCR values';
    if (isEventLog(file)) return 'log';
    if (asPublicArea(file) !== undefined || asPemKey(file) !== undefined) return 'key';
    if (SIGNATURE_ALGORITHMS.includes(u16(file, 0))) return 'signature';
    return isJson(file) || fromTpm2Tools(file).length > 0 ? 'PCR values' : undefined;
  });
  return (part) => files[kinds.indexOf(part)];
}

/** Refuses files that were not used, except duplicates of used ones. */
function refuseUnused(files: readonly NamedFile[], used: readonly (NamedFile | undefined)[]): void {
  const unused = files.find(
    ({ bytes }) => !used.some((each) => each !== undefined && Buffer.compare(each.bytes, bytes) === 0),
  );
  if (unused === undefined) return;
  throw new AttestError(
    'attest-endorsement-unknown',
    `${unused.name}: not part of the TPM quote, or the second file of its kind`,
  );
}

const base64 = z.base64().transform((text) => new Uint8Array(Buffer.from(text, 'base64')));
const hexValue = z
  .string()
  .regex(/^[0-9a-fA-F]{64}$/)
  .transform((text) => new Uint8Array(Buffer.from(text, 'hex')));
const values = z.record(z.string().regex(/^(pcr)?\d{1,2}$/), hexValue);

/** The JSON form: parts in base64, PCR values in hex by index. */
const rawSchema = z.strictObject({
  quote: base64,
  signature: base64,
  attestationKey: base64,
  pcrs: values,
  eventLog: base64.exactOptional(),
});

function fromJson(bytes: Uint8Array): RawTpmQuote {
  const parsed = rawSchema.safeParse(parseJson(Buffer.from(bytes).toString('utf8')));
  if (!parsed.success) {
    throw new AttestError('attest-evidence-incomplete', `invalid TPM quote: ${describeShape(parsed.error)}`);
  }
  const { quote: attest, attestationKey: key, pcrs, eventLog = new Uint8Array() } = parsed.data;
  const attestationKey = asPublicArea(key) ?? key;
  const signature = canonical(parsed.data.signature, attestationKey);
  return { attest, signature, attestationKey, pcrValues: byIndex(pcrs), eventLog, files: {} };
}

/**
 * TPMs strip leading zeros and produce either value of `s`; the verifier accepts one canonical form only, so a raw signature
 * is converted. An unreadable signature is returned unchanged, for its own check to refuse.
 */
function canonical(signature: Uint8Array, attestationKey: Uint8Array | KeyObject): Uint8Array {
  if (!(attestationKey instanceof Uint8Array)) return signature;
  return unlessMalformed(signature, () => {
    const { key } = parsePublic(attestationKey);
    return key.kind === 'ecc'
      ? encodeSignature(canonicalSignature(parseSignature(signature), key.curve))
      : signature;
  });
}

/** The PCRs that a raw quote covers, in its order; none if it cannot be parsed. */
function selectedPcrs(attest: Uint8Array): readonly number[] {
  return unlessMalformed([], () => parseQuoteAttest(attest).selection.pcrs);
}

function unlessMalformed<T>(otherwise: T, read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (error instanceof TpmError) return otherwise;
    throw error;
  }
}

function byIndex(pcrs: Readonly<Record<string, Uint8Array>>): ReadonlyMap<number, Uint8Array> {
  const entries = Object.entries(pcrs).map(
    ([name, value]) => [Number(name.replace('pcr', '')), value] as const,
  );
  return new Map(entries.sort(([a], [b]) => a - b));
}

function pcrValuesFrom(file: Uint8Array, attest: Uint8Array): ReadonlyMap<number, Uint8Array> {
  if (isJson(file)) {
    const parsed = values.safeParse(parseJson(Buffer.from(file).toString('utf8')));
    if (parsed.success) return byIndex(parsed.data);
  }
  const pcrs = selectedPcrs(attest);
  const digests = file.length === pcrs.length * DIGEST_BYTES ? inOrder(file) : fromTpm2Tools(file);
  return new Map(pcrs.flatMap((pcr, index) => (digests[index] === undefined ? [] : [[pcr, digests[index]]])));
}

function inOrder(file: Uint8Array): readonly Uint8Array[] {
  return Array.from({ length: file.length / DIGEST_BYTES }, (_, index) =>
    file.subarray(index * DIGEST_BYTES, (index + 1) * DIGEST_BYTES),
  );
}

/**
 * `tpm2_quote --pcr` writes C structures in the byte order of the machine; this parser expects little-endian:
 * - a TPML_PCR_SELECTION of 132 bytes,
 * - the number of lists (u32),
 * - the lists (TPML_DIGEST), each of 532 bytes: the number of digests (u32), then 8 × { size u16, buffer[64] }.
 */
function fromTpm2Tools(file: Uint8Array): readonly Uint8Array[] {
  const SELECTION = 132;
  const LIST = 532;
  const ENTRY = 66;
  const view = new DataView(file.buffer, file.byteOffset, file.byteLength);
  if (file.length < SELECTION + 4) return [];
  const lists = view.getUint32(SELECTION, true);
  if (file.length !== SELECTION + 4 + lists * LIST) return [];
  return Array.from({ length: lists }, (_, list) => {
    const at = SELECTION + 4 + list * LIST;
    const count = Math.min(view.getUint32(at, true), 8);
    return Array.from({ length: count }, (_value, index) => {
      const entry = at + 4 + index * ENTRY;
      return file.subarray(entry + 2, entry + 2 + Math.min(view.getUint16(entry, true), ENTRY - 2));
    });
  }).flat();
}

/** A TPMT_PUBLIC, or the one inside a TPM2B_PUBLIC; undefined for anything else. */
function asPublicArea(bytes: Uint8Array): Uint8Array | undefined {
  if (KEY_TYPES.includes(u16(bytes, 0))) return bytes;
  const isSized = u16(bytes, 0) === bytes.length - 2 && KEY_TYPES.includes(u16(bytes, 2));
  return isSized ? bytes.subarray(2) : undefined;
}

/** A public key in PEM (SubjectPublicKeyInfo), as `tpm2_createak --format pem` writes it; undefined for anything else. */
function asPemKey(bytes: Uint8Array): KeyObject | undefined {
  const text = Buffer.from(bytes.subarray(0, MAX_PEM_BYTES)).toString('latin1');
  if (!text.trimStart().startsWith('-----BEGIN PUBLIC KEY-----')) return undefined;
  try {
    return createPublicKey(text);
  } catch {
    return undefined;
  }
}

/** Whether a file is an event log of firmware (TCG PC Client Platform Firmware Profile, 10.4.5). */
export function isEventLog(bytes: Uint8Array): boolean {
  return Buffer.from(bytes.subarray(32, 32 + LOG_SIGNATURE.length)).toString('latin1') === LOG_SIGNATURE;
}

function startsWithMagic(bytes: Uint8Array): boolean {
  return bytes.length > 4 && Buffer.from(bytes.subarray(0, 4)).readUInt32BE() === ATTEST_MAGIC;
}

function isJson(bytes: Uint8Array): boolean {
  return bytes[0] === 0x7b;
}

function u16(bytes: Uint8Array, offset: number): number {
  return ((bytes[offset] ?? 0xff) << 8) | (bytes[offset + 1] ?? 0xff);
}
