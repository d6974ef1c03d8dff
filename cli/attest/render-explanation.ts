import type { Check, Claim } from '../../internal/attestation/index.ts';
import { printable } from '../../internal/printable/index.ts';
import type { ExplainedVariant } from './inputs.ts';

const SYMBOLS: Readonly<Record<Check['outcome'], string>> = { pass: '✓', fail: '✗', warn: '!', skipped: '–' };
const MAX_VALUE = 100;

/** Result of `cluster attest explain`, printed as it is by `-o json`. */
export interface Explanation {
  readonly verdict: 'accepted' | 'refused';
  readonly variant: ExplainedVariant;
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
  readonly warnings: readonly string[];
  /** Version of the policy, null without one. */
  readonly policy: string | null;
  /** RFC 3339: the time that validity was checked for. */
  readonly at: string;
}

/** The explanation as text: the verdict, its reason, then everything that was checked and read. */
export function renderExplanation(explanation: Explanation): string {
  const { verdict, variant, policy, at } = explanation;
  const head =
    verdict === 'accepted'
      ? `ACCEPTED  ${variant} evidence, verified at ${at} under ${policy ?? 'no policy'}`
      : `REFUSED   ${variant} evidence, verified at ${at} under ${policy ?? 'no policy'}: ${explanation.code}`;
  const { reason: why, meaning, fix } = explanation;
  const reason = [
    ...(why === undefined ? [] : [`  ${printable(why)}`]),
    ...(meaning === undefined ? [] : [`  meaning: ${meaning}`]),
    ...(fix === undefined ? [] : [`  fix:     ${fix}`]),
  ];
  return [
    head,
    ...reason,
    ...section('Checks', explanation.checks.map(checkLine)),
    ...section('Machine', explanation.machineIdentity === undefined ? [] : [explanation.machineIdentity]),
    ...section('Registers', pairs(explanation.measurements)),
    ...section('TCB', pairs(explanation.tcb)),
    ...section('Claims', pairs(explanation.claims)),
    ...section('Note', explanation.warnings),
    '',
  ].join('\n');
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
