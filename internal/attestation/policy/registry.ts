import type { Validator, Variant } from '../verdict.ts';
import { PolicyError } from './errors.ts';

/** Every kind of evidence there is. There is none that accepts everything. */
export const VARIANTS: readonly Variant[] = [
  'tpm',
  'sev-snp',
  'tdx',
  'snp+tpm',
  'tdx+tpm',
  'owner-key',
  'machine-key',
];

/** One maker for each variant, called only for those in use. */
export type ValidatorDependencies = Readonly<Record<Variant, () => Validator>>;

type NonEmpty<T> = readonly [T, ...T[]];

/** Reads the variants of a configuration: at least one, all known, none twice. Anything else refuses to start. */
export function parseVariants(names: readonly string[]): NonEmpty<Variant> {
  const variants = names.map((name) => {
    const variant = VARIANTS.find((each) => each === name);
    if (variant === undefined) {
      throw new PolicyError(
        'policy-variant-unknown',
        `choosing attestation: ${JSON.stringify(name)} is no variant`,
      );
    }
    return variant;
  });
  const [first, ...others] = variants;
  if (first === undefined)
    throw new PolicyError('policy-variant-unknown', 'choosing attestation: no variant is named');
  if (new Set(variants).size !== variants.length) {
    throw new PolicyError(
      'policy-variant-unknown',
      `choosing attestation: a variant is named twice in ${names.join(', ')}`,
    );
  }
  return [first, ...others];
}

/** The validators of the variants in use, best first as they are given. */
export function createValidators(
  variants: NonEmpty<Variant>,
  makers: ValidatorDependencies,
): NonEmpty<Validator> {
  const [first, ...others] = variants;
  return [createValidator(first, makers), ...others.map((variant) => createValidator(variant, makers))];
}

function createValidator(variant: Variant, makers: ValidatorDependencies): Validator {
  const validator = makers[variant]();
  if (validator.variant !== variant) {
    throw new PolicyError(
      'policy-variant-unknown',
      `choosing attestation: ${validator.variant} stands under ${variant}`,
    );
  }
  return validator;
}
