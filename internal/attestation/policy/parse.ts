import { createHash } from 'node:crypto';
import { describeShape } from '../../errors/index.ts';
import { canonicalJson } from '../../crypto/index.ts';
import type { Policy, RegisterRule } from '../rules.ts';
import type { SnpProduct } from '../snp/product.ts';
import type { SnpTcb } from '../snp/tcb.ts';
import { PolicyError } from './errors.ts';
import { policySchema, type WrittenPolicy } from './schema.ts';

/**
 * Parses a policy from the value of a YAML or JSON document. The version of the policy is the name that the operator
 * chose, with a hash of the content, so that two policies of the same name can be distinguished. Throws PolicyError.
 */
export function parsePolicy(input: unknown): Policy {
  const parsed = policySchema.safeParse(input);
  if (!parsed.success) {
    const path = parsed.error.issues[0]?.path.join('.') || 'the document';
    throw new PolicyError(
      'policy-malformed',
      `reading an attestation policy: ${describeShape(parsed.error)}`,
      { details: { path } },
    );
  }
  const written = parsed.data;
  checkProvesSomething(written);
  const { tpm, 'sev-snp': snp, tdx } = written;
  return {
    version: `${written.name}@${contentHash(input)}`,
    profile: written.profile,
    registers: new Map(Object.entries(written.registers).map(([name, rule]) => [name, registerRule(rule)])),
    machines: typeof written.machines === 'string' ? written.machines : new Set(written.machines),
    ...(tpm === undefined ? {} : { tpm }),
    ...(snp === undefined ? {} : { snp: snpRules(snp) }),
    ...(tdx === undefined ? {} : { tdx: renameAge(tdx) }),
  };
}

/** Refuses a policy that would accept machines without comparing anything. */
function checkProvesSomething({ profile, registers, machines }: WrittenPolicy): void {
  const rules = Object.values(registers);
  if (profile === 'measured' && rules.every((rule) => rule.warnOnly === true)) {
    throw new PolicyError(
      'policy-proves-nothing',
      'reading an attestation policy: the profile `measured` needs a register that is not `warnOnly`',
    );
  }
  if (profile === 'identity' && machines === 'any') {
    throw new PolicyError(
      'policy-proves-nothing',
      'reading an attestation policy: the profile `identity` does not allow machines `any`',
    );
  }
}

function registerRule({ expected, warnOnly }: WrittenPolicy['registers'][string]): RegisterRule {
  return { accepted: expected, warnOnly: warnOnly ?? false };
}

function snpRules(written: NonNullable<WrittenPolicy['sev-snp']>): NonNullable<Policy['snp']> {
  const { minimumTcb, ...rest } = renameAge(written);
  return { ...rest, minimumTcb: new Map(Object.entries(minimumTcb) as [SnpProduct, SnpTcb][]) };
}

function renameAge<T extends { readonly maxCollateralAgeDays: number }>(written: T) {
  const { maxCollateralAgeDays: maxCollateralAgeMs, ...rest } = written;
  return { ...rest, maxCollateralAgeMs };
}

/** A hash of the content with sorted keys, so that reformatting a file does not change the version. */
function contentHash(input: unknown): string {
  return createHash('sha256').update(canonicalJson(input)).digest('hex').slice(0, 12);
}
