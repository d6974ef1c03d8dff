import { proofText, type Check, type Policy } from '../../internal/attestation/index.ts';
import { printable } from '../../internal/printable/index.ts';
import { formatTable } from '../host/index.ts';

/** Result of `cluster verify`, printed as it is by `-o json`. */
export interface VerifyReport {
  readonly node: string;
  readonly nodeId: string;
  readonly verdict: 'verified' | 'refused';
  readonly variant: string;
  readonly profile: string;
  readonly identity: string;
  /** Who vouches for this identity, see `proofText`; empty if the evidence was refused. */
  readonly proof: string;
  /**
   * Where the proof is from. A quote of a TPM shows only the attestation key: the join service verified to which TPM that
   * key belongs, and who made it, when the machine joined.
   */
  readonly proofFrom: 'evidence' | 'record';
  readonly policy: string;
  readonly code?: string;
  readonly reason?: string;
  /** What `cluster help errors CODE` shows about the code. */
  readonly meaning?: string;
  readonly fix?: string;
  readonly checks: readonly Check[];
  readonly registers: readonly RegisterRow[];
  readonly warnings: readonly string[];
  /** How the record of the node compares with the machine that this workspace knows. */
  readonly pin: 'first seen' | 'completed' | 'unchanged' | 'changed' | 'accepted';
}

/** One register: the values that the policy accepts, and the value that the node showed. */
export interface RegisterRow {
  readonly name: string;
  readonly expected: readonly string[];
  readonly actual: string;
  readonly verdict: 'as expected' | 'differs' | 'not judged' | 'missing';
}

/** Registers of the policy and of the evidence, by number. */
export function registerRows(
  policy: Pick<Policy, 'registers'>,
  measured: ReadonlyMap<string, Uint8Array>,
): readonly RegisterRow[] {
  const names = new Set([...policy.registers.keys(), ...measured.keys()]);
  return [...names].sort(byNumber).map((name) => {
    const expected = policy.registers.get(name)?.accepted ?? [];
    const value = measured.get(name);
    const actual = value === undefined ? '' : Buffer.from(value).toString('hex');
    if (expected.length === 0) return { name, expected, actual, verdict: 'not judged' };
    if (value === undefined) return { name, expected, actual, verdict: 'missing' };
    return { name, expected, actual, verdict: expected.includes(actual) ? 'as expected' : 'differs' };
  });
}

/** The report as text. */
export function renderReport(report: VerifyReport): string {
  const { verdict, node, variant, identity, policy, profile } = report;
  const head =
    verdict === 'verified'
      ? `Node ${node} is verified by fresh ${variant} evidence.`
      : `Node ${node} is NOT verified: ${report.code}`;
  return [
    head,
    ...(report.reason === undefined ? [] : [`  ${report.reason}`]),
    ...(report.meaning === undefined ? [] : [`  meaning  ${report.meaning}`]),
    ...(report.fix === undefined ? [] : [`  fix      ${report.fix}`]),
    `  machine  ${identity}, ${PIN_TEXTS[report.pin]}`,
    ...(report.proof === ''
      ? []
      : [`  proof    ${proofText(report.proof)}${report.proofFrom === 'record' ? ' (on record)' : ''}`]),
    `  policy   ${policy}, profile ${profile}${profile === 'identity' ? ': identity verified; software not attested' : ''}`,
    '',
    formatTable(
      ['REGISTER', 'VERDICT', 'EXPECTED', 'ACTUAL'],
      report.registers.map((row) => [
        row.name,
        row.verdict,
        row.expected.map((each) => each.slice(0, 16)).join(' or ') || '<none>',
        row.actual.slice(0, 16) || '<none>',
      ]),
    ),
    ...report.checks
      .filter(({ outcome }) => outcome === 'fail' || outcome === 'warn')
      .map(({ name, outcome, expected, actual }) =>
        printable(`  ${outcome} ${name}: expected ${expected ?? '-'}, found ${actual ?? '-'}`),
      ),
    ...report.warnings.map((warning) => `  note: ${printable(warning)}`),
  ].join('\n');
}

const PIN_TEXTS: Readonly<Record<VerifyReport['pin'], string>> = {
  'first seen': 'seen for the first time',
  completed: 'the machine that the workspace knows; its keys are known from now on',
  unchanged: 'the machine that the workspace knows',
  changed: 'NOT the machine that the workspace knows',
  accepted: 'accepted instead of the machine that the workspace knew',
};

function byNumber(a: string, b: string): number {
  return a.localeCompare(b, 'en', { numeric: true });
}
