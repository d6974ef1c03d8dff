/**
 * What a machine must be given to join by itself: its provisioning, the agent package and the collateral, as cloud-init user
 * data. It contains no secret and is the same for every machine.
 */
export { runCloudInit, type CloudInitOptions } from './cloud-init.ts';
export { CloudInitError, cloudInitErrors } from './errors.ts';
