import { VARIANTS, type Validator, type Variant } from '../verdict.ts';
import { PolicyError } from './errors.ts';

/** For each variant, a function that creates its validator. Called only for variants in use. */
export type ValidatorDependencies = Readonly<Record<Variant, () => Validator>>;

type NonEmpty<T> = readonly [T, ...T[]];

/** Parses the variants of a configuration: at least one, all known, no duplicates. Throws PolicyError. */
export function parseVariants(names: readonly string[]): NonEmpty<Variant> {
  const variants = names.map((name) => {
    const variant = VARIANTS.find((each) => each === name);
    if (variant === undefined) {
      throw new PolicyError(
        'policy-variant-unknown',
        `reading attestation variants: unknown variant ${JSON.stringify(name)}`,
      );
    }
    return variant;
  });
  const [first, ...others] = variants;
  if (first === undefined)
    throw new PolicyError('policy-variant-unknown', 'reading attestation variants: the list is empty');
  if (new Set(variants).size !== variants.length) {
    throw new PolicyError(
      'policy-variant-unknown',
      `reading attestation variants: duplicate variant in ${names.join(', ')}`,
    );
  }
  return [first, ...others];
}

/** Creates the validators of the variants in use, in the given order. */
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
      `creating the ${variant} validator: it is for variant ${validator.variant}`,
    );
  }
  return validator;
}
