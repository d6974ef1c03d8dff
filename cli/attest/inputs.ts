import { isAbsolute, join } from 'node:path';
import { parse as parseYaml } from 'yaml';
import { FileError, type FilePort } from '../../internal/file/index.ts';
import {
  AppraisalError,
  MAX_EVIDENCE_BYTES,
  MEASURED_VARIANTS,
  type MeasuredVariant,
  type Policy,
} from '../../internal/attestation/index.ts';
import {
  CollateralError,
  readCollateralFile,
  type CollateralItem,
} from '../../internal/attestation/collateral/index.ts';
import { parsePolicy, PolicyError } from '../../internal/attestation/policy/index.ts';
import { AttestError } from './errors.ts';

/** Arguments of `cluster attest explain`. */
export interface ExplainOptions {
  readonly evidence: string;
  readonly variant: string;
  readonly endorsements?: readonly string[];
  readonly collateral?: readonly string[];
  readonly policy?: string | undefined;
  readonly binding?: string | undefined;
  readonly at?: string | undefined;
}

/** A file as the operator named it. Its bytes may be an attacker's. */
export interface NamedFile {
  readonly name: string;
  readonly bytes: Uint8Array;
}

/** The arguments with their files read. An attacker may control the evidence, endorsements and collateral. */
export interface ExplainInputs {
  readonly variant: MeasuredVariant;
  /** The file with the evidence, as the operator named it. */
  readonly name: string;
  /** A function: it is called where an error becomes the verdict "refused". */
  readonly evidence: () => Uint8Array;
  readonly endorsements: readonly NamedFile[];
  readonly collateral: readonly NamedFile[];
  readonly policy: Policy | 'not-judged';
  readonly binding: Uint8Array | 'not-judged';
  readonly nowMs: number;
}

/** Access to the files that the arguments name. */
export interface ReadingPorts {
  readonly files: FilePort;
  /** The directory that relative paths start from. */
  readonly base: string;
  readonly nowMs: number;
}

const MAX_FILE_BYTES = 8 << 20;

/** Reads the files and parses the options. @throws AttestError `attest-option`, `attest-file` */
export async function readInputs(options: ExplainOptions, ports: ReadingPorts): Promise<ExplainInputs> {
  const variant = MEASURED_VARIANTS.find((each) => each === options.variant);
  if (variant === undefined) {
    throw new AttestError('attest-option', `unknown --variant ${JSON.stringify(options.variant)}`);
  }
  // Without this error, the result would look as if the evidence had been verified with the ignored input.
  const { endorsements = [], collateral: collateralPaths = [] } = options;
  if (variant === 'tpm' && collateralPaths.length > 0)
    throw new AttestError('attest-option', '--collateral does not apply to TPM evidence');
  const readAll = (paths: readonly string[]): Promise<NamedFile[]> =>
    Promise.all(paths.map(async (name) => ({ name, bytes: await readFile(name, ports) })));
  return {
    variant,
    name: options.evidence,
    evidence: await readEvidence(options.evidence, ports),
    endorsements: await readAll(endorsements),
    collateral: await readAll(collateralPaths),
    policy: options.policy === undefined ? 'not-judged' : await readPolicy(options.policy, ports),
    binding: options.binding === undefined ? 'not-judged' : parseBinding(options.binding),
    nowMs: options.at === undefined ? ports.nowMs : parseTime(options.at),
  };
}

/** Evidence above the file size limit becomes the verdict "refused", not a usage error. */
async function readEvidence(path: string, ports: ReadingPorts): Promise<() => Uint8Array> {
  try {
    const bytes = await readFile(path, ports);
    return () => bytes;
  } catch (error) {
    if (!isTooLarge(error)) throw error;
    return () => {
      throw new AppraisalError('attestation-evidence-too-large', 'judging evidence', {
        expected: `at most ${MAX_EVIDENCE_BYTES} bytes`,
        actual: `more than ${MAX_FILE_BYTES} bytes`,
      });
    };
  }
}

/** @throws AttestError `attest-file` */
export async function readFile(path: string, { files, base }: ReadingPorts): Promise<Uint8Array> {
  const reading = files.read(isAbsolute(path) ? path : join(base, path), MAX_FILE_BYTES);
  const bytes = await reading.catch((cause: unknown) => {
    throw isWrongFile(cause) ? new AttestError('attest-file', `reading ${path}`, { cause }) : cause;
  });
  if (bytes === undefined) throw new AttestError('attest-file', `file ${path} not found`);
  return bytes;
}

/** The documents of manufacturers in a file. @throws CollateralError that names the file */
export function documentsIn({ name, bytes }: NamedFile): readonly CollateralItem[] {
  try {
    return readCollateralFile(bytes);
  } catch (cause) {
    throw cause instanceof CollateralError
      ? new CollateralError(cause.code, `reading ${name}`, { cause })
      : cause;
  }
}

function isTooLarge(error: unknown): boolean {
  return (
    error instanceof AttestError && error.cause instanceof FileError && error.cause.code === 'file-too-large'
  );
}

/** A directory or an oversized file cannot be the file that was meant. */
function isWrongFile(error: unknown): boolean {
  if (!(error instanceof FileError)) return false;
  return error.code === 'file-too-large' || error.details['errno'] === 'EISDIR';
}

/** Reads YAML or JSON: a policy alone, or a cluster configuration with `attestation.policy`. */
async function readPolicy(path: string, ports: ReadingPorts): Promise<Policy> {
  const text = Buffer.from(await readFile(path, ports)).toString('utf8');
  const input = parseText(text, path);
  try {
    return parsePolicy(sectionOf(sectionOf(input, 'attestation'), 'policy'));
  } catch (cause) {
    throw cause instanceof PolicyError ? new PolicyError(cause.code, `reading ${path}`, { cause }) : cause;
  }
}

/** The section `name` of a document; a document without this section is returned whole. */
function sectionOf(input: unknown, name: string): unknown {
  const isWrapped = typeof input === 'object' && input !== null && name in input;
  return isWrapped ? (input as Record<string, unknown>)[name] : input;
}

function parseText(text: string, path: string): unknown {
  try {
    return parseYaml(text);
  } catch (cause) {
    throw new PolicyError('policy-malformed', `${path} is neither YAML nor JSON`, { cause });
  }
}

function parseBinding(text: string): Uint8Array {
  if (!/^([0-9a-fA-F]{2})+$/.test(text)) throw new AttestError('attest-option', '--binding is not hex');
  return new Uint8Array(Buffer.from(text, 'hex'));
}

const TIME = /^(\d{4}-\d\d-\d\d)(T[\d:.]+(Z|[+-]\d\d:\d\d))?$/;

/** RFC 3339, or a day. A bare number is refused: `2020` could be a year or seconds. */
function parseTime(text: string): number {
  const day = TIME.exec(text)?.[1];
  const ms = day === undefined || !isDay(day) ? NaN : Date.parse(text);
  if (Number.isNaN(ms))
    throw new AttestError('attest-option', `invalid time ${JSON.stringify(text)} for --at`);
  return ms;
}

/** `Date.parse` accepts February 31 as March 3. */
function isDay(text: string): boolean {
  const day = new Date(`${text}T00:00:00Z`);
  return !Number.isNaN(day.getTime()) && day.toISOString().startsWith(text);
}
