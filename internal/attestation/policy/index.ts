/**
 * The attestation policy: reference values from the cluster configuration, and the accepted attestation variants.
 *
 *   configuration ─parsePolicy─▶ Policy ─PolicyStore─▶ active policy ─▶ validators, by variant (createValidators)
 *
 * Unknown keys, unknown variants, a policy that compares nothing and an invalid new policy are refused.
 */
export {
  CompositeIssuer,
  compositePolicies,
  compositeReportBinding,
  CompositeValidator,
  decodeComposite,
  mergeVerdicts,
  type CompositeVariant,
} from './composite.ts';
export { PolicyError } from './errors.ts';
export { parsePolicy } from './parse.ts';
export { createValidators, parseVariants, type ValidatorDependencies } from './registry.ts';
export { createIssuer, standardValidators } from './standard.ts';
export { policySchema } from './schema.ts';
export { PolicyStore } from './store.ts';
