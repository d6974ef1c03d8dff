import type { Check } from '../../internal/attestation/index.ts';
import type { Explanation } from './explanation.ts';

const MARKS: Readonly<Record<Check['outcome'], string>> = { pass: '✓', fail: '✗', warn: '!', skipped: '–' };
const MAX_VALUE = 100;

/** The verdict for people: first the answer, then why, then everything that was read. */
export function renderExplanation(explanation: Explanation): string {
  const { verdict, variant, policy, at } = explanation;
  const head =
    verdict === 'accepted'
      ? `ACCEPTED  ${variant} evidence, judged at ${at} under ${policy ?? 'no policy'}`
      : `REFUSED   ${variant} evidence, judged at ${at} under ${policy ?? 'no policy'}: ${explanation.code}`;
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
  return `${MARKS[outcome]} ${name.padEnd(24)} ${compared.join(', ')}`.trimEnd();
}

function section(title: string, lines: readonly string[]): string[] {
  return lines.length === 0 ? [] : ['', title, ...lines.map((line) => `  ${line}`)];
}

function pairs(record: Readonly<Record<string, unknown>>): string[] {
  return Object.entries(record).map(([name, value]) => `${name.padEnd(20)} ${short(String(value))}`);
}

/** One line a value; the JSON output has it whole. */
function short(text: string): string {
  const shown = printable(text);
  return shown.length > MAX_VALUE ? `${shown.slice(0, MAX_VALUE)}…` : shown;
}

/** What an attacker wrote does not steer the terminal: no control, no change of direction, no character that is none. */
function printable(text: string): string {
  return text.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, '?');
}
