/**
 * `cluster provisioning`: creates and checks provisioning files, and validates them with the schema that the agent
 * uses.
 */
export { ProvisioningError, provisioningErrors } from './errors.ts';
export { runProvisioningGenerate, type GenerateProvisioningOptions } from './generate.ts';
export { runProvisioningSchema, runProvisioningValidate } from './validate.ts';
