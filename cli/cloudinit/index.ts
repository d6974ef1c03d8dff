/**
 * Cloud-init user data, with which a machine joins without an operator: its provisioning, the agent package and the collateral.
 * It contains no secret and is the same for every machine.
 */
export { runCloudInit, type CloudInitOptions } from './cloud-init.ts';
export { CloudInitError, cloudInitErrors } from './errors.ts';
