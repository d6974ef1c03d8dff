/** `cluster provisioning`: the file that a machine is given before its agent starts, by the schema that the agent reads it with. */
export { ProvisioningError, provisioningErrors } from './errors.ts';
export { runProvisioningGenerate, type GenerateProvisioningOptions } from './generate.ts';
export { runProvisioningSchema, runProvisioningValidate } from './validate.ts';
