/**
 * Cloud-init user data, with which a machine starts without an operator: its provisioning, the agent package and the collateral.
 * It contains no secret and is the same for every machine.
 */
export { readAgentPackage, type PackageOptions } from './agent-package.ts';
export { userDataOf } from './user-data.ts';
export { runCloudInit, type CloudInitOptions } from './cloud-init.ts';
export { CloudInitError, cloudInitErrors } from './errors.ts';
