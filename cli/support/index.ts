/**
 * `cluster support`: makes and opens support bundles. A bundle has what an expert needs to find a cause, and no secret: only listed
 * fields of Kubernetes objects (`kubernetes-files.ts`) and text without what looks like a secret (`redact.ts`), encrypted in the age
 * format (`support-file.ts`). `local/` makes the bundle of a machine on the machine itself, without its cluster.
 */
export { runSupportBundle, showRecipient, type SupportBundleOptions } from './create-bundle.ts';
export { supportErrors } from './errors.ts';
export { runSupportOpen, type SupportOpenOptions } from './open-bundle.ts';
export { runLocalSupportBundle, type LocalBundleOptions } from './local/create-local-bundle.ts';
export { collectOwnFacts } from './local/collect-local-facts.ts';
export { localPortsOf } from './local/local-ports.ts';
