/**
 * The attestation policy: reference values from the cluster configuration, and which kinds of evidence count.
 *
 *   configuration ─parsePolicy─▶ Policy ─PolicyStore─▶ the one in force ─▶ validators, by variant (createValidators)
 *
 * Trust fails closed: unknown keys, unknown variants, a policy that compares nothing, and a bad new policy are refused.
 */
export { CompositeIssuer, CompositeValidator } from './composite.ts';
export { PolicyError, policyErrors, type PolicyErrorCode } from './errors.ts';
export { parsePolicy } from './parse.ts';
export { createValidators, parseVariants, VARIANTS, type ValidatorDependencies } from './registry.ts';
export { createIssuer, standardValidators, type IssuerDependencies } from './standard.ts';
export { policySchema } from './schema.ts';
export { PolicyStore, type PolicyChange } from './store.ts';
