import { isAbsolute, join } from 'node:path';
import { parse as parseYaml } from 'yaml';
import type { FilePort } from '../../internal/file/index.ts';
import type { Policy } from '../../internal/attestation/index.ts';
import { readCollateralFile, type CollateralItem } from '../../internal/attestation/collateral/index.ts';
import { parsePolicy, PolicyError } from '../../internal/attestation/policy/index.ts';
import { AttestError } from './errors.ts';

/** What `cluster attest explain` takes from its command line. */
export interface ExplainOptions {
  readonly evidence: string;
  readonly variant: string;
  readonly endorsements: readonly string[];
  readonly collateral: readonly string[];
  readonly policy: string | undefined;
  readonly binding: string | undefined;
  readonly at: string | undefined;
}

export const EXPLAINED_VARIANTS = ['tpm', 'sev-snp', 'tdx'] as const;
export type ExplainedVariant = (typeof EXPLAINED_VARIANTS)[number];

/** The same, read. Contents of evidence, endorsements and collateral are still the attacker's. */
export interface ExplainInputs {
  readonly variant: ExplainedVariant;
  readonly evidence: Uint8Array;
  readonly endorsements: readonly Uint8Array[];
  /** Read only when it is judged, so that what is wrong with it is a refusal like any other. */
  readonly collateral: () => readonly CollateralItem[];
  readonly policy: Policy | 'not-judged';
  readonly binding: Uint8Array | 'not-judged';
  readonly nowMs: number;
}

export interface ReadingPorts {
  readonly files: FilePort;
  /** The folder that relative paths start from. */
  readonly base: string;
  readonly nowMs: number;
}

const MAX_FILE_BYTES = 8 << 20;

export async function readInputs(options: ExplainOptions, ports: ReadingPorts): Promise<ExplainInputs> {
  const variant = EXPLAINED_VARIANTS.find((each) => each === options.variant);
  if (variant === undefined) {
    throw new AttestError(
      'attest-option',
      `reading --variant: ${JSON.stringify(options.variant)} is not known`,
    );
  }
  const readAll = (paths: readonly string[]): Promise<Uint8Array[]> =>
    Promise.all(paths.map((path) => readFile(path, ports)));
  const collateral = await readAll(options.collateral);
  return {
    variant,
    evidence: await readFile(options.evidence, ports),
    endorsements: await readAll(options.endorsements),
    collateral: () => collateral.flatMap(readCollateralFile),
    policy: options.policy === undefined ? 'not-judged' : await readPolicy(options.policy, ports),
    binding: options.binding === undefined ? 'not-judged' : parseBinding(options.binding),
    nowMs: options.at === undefined ? ports.nowMs : parseTime(options.at),
  };
}

export async function readFile(path: string, { files, base }: ReadingPorts): Promise<Uint8Array> {
  const bytes = await files.read(isAbsolute(path) ? path : join(base, path), MAX_FILE_BYTES);
  if (bytes === undefined) throw new AttestError('attest-file', `reading ${path}: there is no such file`);
  return bytes;
}

/** YAML, which JSON is too. The policy may stand alone or as `attestation.policy` of a cluster configuration. */
async function readPolicy(path: string, ports: ReadingPorts): Promise<Policy> {
  const text = Buffer.from(await readFile(path, ports)).toString('utf8');
  const input = parseText(text, path);
  return parsePolicy(sectionOf(sectionOf(input, 'attestation'), 'policy'));
}

/** The part of that name, or the whole where it has none. */
function sectionOf(input: unknown, name: string): unknown {
  const isWrapped = typeof input === 'object' && input !== null && name in input;
  return isWrapped ? (input as Record<string, unknown>)[name] : input;
}

function parseText(text: string, path: string): unknown {
  try {
    return parseYaml(text);
  } catch (cause) {
    throw new PolicyError('policy-malformed', `reading ${path}: neither YAML nor JSON`, { cause });
  }
}

function parseBinding(text: string): Uint8Array {
  if (!/^([0-9a-fA-F]{2})+$/.test(text)) throw new AttestError('attest-option', 'reading --binding: not hex');
  return new Uint8Array(Buffer.from(text, 'hex'));
}

/** RFC 3339 or seconds since the epoch. */
function parseTime(text: string): number {
  const ms = /^\d+$/.test(text) ? Number(text) * 1000 : Date.parse(text);
  const isTime = /^\d+$/.test(text) || /^\d{4}-\d\d-\d\d(T[\d:.]+(Z|[+-]\d\d:\d\d))?$/.test(text);
  if (!isTime || Number.isNaN(ms))
    throw new AttestError('attest-option', `reading --at: ${JSON.stringify(text)} is no time`);
  return ms;
}
