import { AppraisalError } from './errors.ts';
import type { Policy, RegisterRule } from './rules.ts';
import {
  BINDING_BYTES,
  machineIdentityText,
  MAX_EVIDENCE_BYTES,
  type Check,
  type MachineIdentity,
} from './verdict.ts';

/** The two checks before anything is parsed. A short binding is our own defect, a large document the peer's. */
export function checkSizes(evidence: Uint8Array, binding: Uint8Array): void {
  checkBinding(binding);
  if (evidence.length > MAX_EVIDENCE_BYTES) {
    throw new AppraisalError('attestation-evidence-too-large', 'judging evidence', {
      expected: `at most ${MAX_EVIDENCE_BYTES} bytes`,
      actual: `${evidence.length} bytes`,
    });
  }
}

export function checkBinding(binding: Uint8Array): void {
  if (binding.length !== BINDING_BYTES) {
    throw new AppraisalError('attestation-binding-length', 'binding evidence', {
      expected: `${BINDING_BYTES} bytes`,
      actual: `${binding.length} bytes`,
    });
  }
}

/**
 * Compares measured registers with the policy. Appends to `checks`; the first mismatch that counts throws. A policy may
 * speak of several kinds of evidence: registers that this kind does not have at all are skipped, but some must be left,
 * and under `measured` one of them must be enforced.
 */
export function checkRegisters(
  measurements: ReadonlyMap<string, Uint8Array>,
  policy: Policy,
  checks: Check[],
): void {
  const families = new Set([...measurements.keys()].map(registerFamily));
  const judged = [...policy.registers].filter(([register]) => families.has(registerFamily(register)));
  const isEnforced = judged.some(([, rule]) => !rule.warnOnly);
  const isEmpty = policy.registers.size > 0 && judged.length === 0;
  if ((policy.profile === 'measured' && !isEnforced) || (policy.profile === undefined && isEmpty)) {
    throw new AppraisalError(
      'attestation-register-missing',
      'judging registers: no reference value is for this evidence',
      {
        expected: [...policy.registers.keys()].join(', '),
        actual: [...measurements.keys()].join(', '),
        checks,
      },
    );
  }
  for (const [register, rule] of policy.registers) {
    if (families.has(registerFamily(register))) {
      checkRegister(register, rule, { value: measurements.get(register), checks });
    } else {
      checks.push({ name: `register-${register}`, outcome: 'skipped', expected: rule.accepted.join(' or ') });
    }
  }
}

function checkRegister(
  register: string,
  rule: RegisterRule,
  { value, checks }: { readonly value: Uint8Array | undefined; readonly checks: Check[] },
): void {
  if (rule.accepted.length === 0) {
    throw new AppraisalError('attestation-policy-invalid', `judging ${register}: no accepted value`, {
      checks,
    });
  }
  const actual = value === undefined ? undefined : Buffer.from(value).toString('hex');
  const compared = {
    expected: rule.accepted.join(' or '),
    ...(actual === undefined ? {} : { actual }),
  };
  const matches = actual !== undefined && rule.accepted.includes(actual);
  if (!matches && !rule.warnOnly) {
    const code = actual === undefined ? 'attestation-register-missing' : 'attestation-register-mismatch';
    throw new AppraisalError(code, `judging ${register}`, {
      ...compared,
      details: { register },
      checks,
    });
  }
  checks.push({ name: `register-${register}`, outcome: matches ? 'pass' : 'warn', ...compared });
}

/** `pcr4` is one of a TPM's, `rtmr1` and `mrtd` are a TD's, `launch` is SNP's. */
function registerFamily(register: string): string {
  return register === 'mrtd' ? 'rtmr' : register.replace(/\d+$/, '');
}

/** Whether the policy lets this machine pass. */
export function checkMachine(identity: MachineIdentity, policy: Policy, checks: Check[]): void {
  const { machines } = policy;
  const actual = `${machineIdentityText(identity)} (${identity.proof})`;
  const allowed =
    machines === 'any' ||
    (identity.proof !== 'unproved' &&
      (machines === 'any-proved' || machines.has(machineIdentityText(identity))));
  const expected = typeof machines === 'string' ? machines : [...machines].join(' or ');
  if (!allowed) {
    throw new AppraisalError('attestation-machine-unknown', 'judging the machine', {
      expected,
      actual,
      checks,
    });
  }
  checks.push({ name: 'machine', outcome: 'pass', expected, actual });
}

/** One sentence for each check that only warned. */
export function warningsOf(checks: readonly Check[]): string[] {
  return checks
    .filter((check) => check.outcome === 'warn')
    .map((check) => `${check.name}: expected ${check.expected ?? '?'}, found ${check.actual ?? 'nothing'}`);
}
