import type { Check, Claim, MeasuredVariant } from '../../internal/attestation/index.ts';
import { printable } from '../../internal/printable/index.ts';

const SYMBOLS: Readonly<Record<Check['outcome'], string>> = { pass: '✓', fail: '✗', warn: '!', skipped: '–' };
/** A chip id or a SHA-512 in hex. */
const MAX_VALUE = 128;

/** Result of `cluster attest explain`, printed as it is by `-o json`. */
export interface Explanation {
  readonly verdict: 'accepted' | 'refused';
  readonly variant: MeasuredVariant;
  /** The file with the evidence, as the operator named it. */
  readonly evidence: string;
  /** Code of the failed check. */
  readonly code?: string;
  readonly reason?: string;
  /** What `cluster help errors CODE` shows about the code. */
  readonly meaning?: string;
  readonly fix?: string;
  readonly expected?: string;
  readonly actual?: string;
  readonly checks: readonly Check[];
  readonly measurements: Readonly<Record<string, string>>;
  readonly tcb: Readonly<Record<string, Claim>>;
  readonly machineIdentity?: string;
  readonly claims: Readonly<Record<string, Claim>>;
  /** What refused evidence says of its machine. Nothing of it is verified. */
  readonly unverified?: Readonly<Record<'measurements' | 'tcb' | 'claims', Readonly<Record<string, Claim>>>>;
  readonly warnings: readonly string[];
  /** Version of the policy, null without one. */
  readonly policy: string | null;
  /** RFC 3339: the time that validity was checked for. */
  readonly at: string;
}

/** The explanation as text: the verdict, its reason, then everything that was checked and read. */
export function renderExplanation(explanation: Explanation): string {
  const { verdict, variant, evidence, policy, at, unverified } = explanation;
  const what = `${variant} evidence ${printable(evidence)}, verified at ${at} under ${policy ?? 'no policy'}`;
  const head = verdict === 'accepted' ? `ACCEPTED  ${what}` : `REFUSED   ${what}: ${explanation.code}`;
  return [
    head,
    ...reasonLines(explanation),
    ...section('Checks (✓ passed, ✗ failed, ! warning, – skipped)', explanation.checks.map(checkLine)),
    ...section('Machine', explanation.machineIdentity === undefined ? [] : [explanation.machineIdentity]),
    ...section('Registers', pairs(explanation.measurements)),
    ...section('TCB', pairs(explanation.tcb)),
    ...section('Claims', pairs(explanation.claims)),
    ...section('Evidence (not verified)', unverifiedLines(unverified)),
    ...section('Note', explanation.warnings),
    '',
  ].join('\n');
}

/** Why evidence was refused. Both compared values are shown in full: the table of checks cuts them. */
function reasonLines({ reason, meaning, expected, actual, fix }: Explanation): string[] {
  return [
    ...(reason === undefined ? [] : [`  ${printable(reason)}`]),
    ...labelled('meaning', meaning),
    ...labelled('expected', reason?.includes(expected ?? '') ? undefined : expected),
    ...labelled('found', reason?.includes(actual ?? '') ? undefined : actual),
    ...labelled('fix', fix),
  ];
}

/** The machine first, then its TCB, then its registers. */
function unverifiedLines(unverified: Explanation['unverified']): string[] {
  if (unverified === undefined) return [];
  return [unverified.claims, unverified.tcb, unverified.measurements].flatMap(pairs);
}

function labelled(label: string, text: string | undefined): string[] {
  return text === undefined ? [] : [`  ${`${label}:`.padEnd(10)}${printable(text)}`];
}

function checkLine({ name, outcome, expected, actual }: Check): string {
  const compared = [
    ...(expected === undefined ? [] : [`expected ${short(expected)}`]),
    ...(actual === undefined ? [] : [`found ${short(actual)}`]),
  ];
  return `${SYMBOLS[outcome]} ${name.padEnd(24)} ${compared.join(', ')}`.trimEnd();
}

function section(title: string, lines: readonly string[]): string[] {
  return lines.length === 0 ? [] : ['', title, ...lines.map((line) => `  ${line}`)];
}

function pairs(record: Readonly<Record<string, unknown>>): string[] {
  return Object.entries(record).map(([name, value]) => `${name.padEnd(20)} ${short(String(value))}`);
}

/** Shortened to one line; `-o json` has the whole value. */
function short(text: string): string {
  const shown = printable(text);
  return shown.length > MAX_VALUE ? `${shown.slice(0, MAX_VALUE)}…` : shown;
}
