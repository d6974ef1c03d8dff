/** `cluster provisioning`: creates and checks provisioning files, with the schema that the agent reads them with. */
export { ProvisioningError, provisioningErrors } from './errors.ts';
export { runProvisioningGenerate, type GenerateProvisioningOptions } from './generate.ts';
export { runProvisioningSchema, runProvisioningValidate } from './validate.ts';
