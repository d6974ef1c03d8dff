import { AppraisalError } from './errors.ts';
import type { Policy, RegisterRule } from './rules.ts';
import {
  BINDING_BYTES,
  machineIdentityText,
  MAX_EVIDENCE_BYTES,
  type Check,
  type MachineIdentity,
} from './verdict.ts';

/**
 * Checks the sizes before anything is parsed. A binding of a wrong size is a bug of the caller; evidence that is too
 * large is a fault of the peer.
 */
export function checkSizes(evidence: Uint8Array, binding: Uint8Array): void {
  checkBinding(binding);
  if (evidence.length > MAX_EVIDENCE_BYTES) {
    throw new AppraisalError('attestation-evidence-too-large', 'verifying evidence', {
      expected: `at most ${MAX_EVIDENCE_BYTES} bytes`,
      actual: `${evidence.length} bytes`,
    });
  }
}

/** Checks that a binding has `BINDING_BYTES`. Throws AppraisalError `attestation-binding-length`. */
export function checkBinding(binding: Uint8Array): void {
  if (binding.length !== BINDING_BYTES) {
    throw new AppraisalError('attestation-binding-length', 'checking the binding of evidence', {
      expected: `${BINDING_BYTES} bytes`,
      actual: `${binding.length} bytes`,
    });
  }
}

/**
 * Compares the measured registers with the policy and appends the results to `checks`. Throws AppraisalError at the
 * first mismatch that is not `warnOnly`. A policy may cover several attestation variants, so registers that this kind
 * of evidence does not have are skipped. At least one register must remain. With the profile `measured`, at least one
 * of the remaining registers must not be `warnOnly`.
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
      'checking registers: the policy has no reference value for this evidence',
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
    throw new AppraisalError(
      'attestation-policy-invalid',
      `checking ${register}: the policy accepts no value`,
      {
        checks,
        check: `register-${register}`,
      },
    );
  }
  const actual = value === undefined ? undefined : Buffer.from(value).toString('hex');
  const compared = {
    expected: rule.accepted.join(' or '),
    ...(actual === undefined ? {} : { actual }),
  };
  const matches = actual !== undefined && rule.accepted.includes(actual);
  if (!matches && !rule.warnOnly) {
    const code = actual === undefined ? 'attestation-register-missing' : 'attestation-register-mismatch';
    throw new AppraisalError(code, `checking ${register}`, {
      ...compared,
      details: { register },
      checks,
      check: `register-${register}`,
    });
  }
  checks.push({ name: `register-${register}`, outcome: matches ? 'pass' : 'warn', ...compared });
}

/** The technology of a register: `pcr4` belongs to a TPM, `rtmr1` and `mrtd` to TDX, `launch` to SNP. */
function registerFamily(register: string): string {
  return register === 'mrtd' ? 'rtmr' : register.replace(/\d+$/, '');
}

/** Checks that the policy allows this machine. Throws AppraisalError `attestation-machine-unknown`. */
export function checkMachine(identity: MachineIdentity, policy: Policy, checks: Check[]): void {
  const { machines } = policy;
  const actual = `${machineIdentityText(identity)} (${identity.proof})`;
  const allowed =
    machines === 'any' ||
    (identity.proof !== 'unproved' &&
      (machines === 'any-proved' || machines.has(machineIdentityText(identity))));
  const expected = typeof machines === 'string' ? machines : [...machines].join(' or ');
  if (!allowed) {
    throw new AppraisalError('attestation-machine-unknown', 'checking the machine', {
      expected,
      actual,
      checks,
      check: 'machine',
    });
  }
  checks.push({ name: 'machine', outcome: 'pass', expected, actual });
}

/** One sentence for each check with outcome `warn`. */
export function warningsOf(checks: readonly Check[]): string[] {
  return checks
    .filter((check) => check.outcome === 'warn')
    .map((check) => `${check.name}: expected ${check.expected ?? '?'}, found ${check.actual ?? 'nothing'}`);
}
