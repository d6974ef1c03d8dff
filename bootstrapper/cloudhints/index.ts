/**
 * Hints from the cloud's metadata about this machine: its name, its address, its region and its zone. Everything is
 * untrusted. No hint has influence on identity, admission, roles or certificates; values from the provisioning, the
 * inventory or an operator come first (docs/decisions/cloud-hints.md).
 *
 * ```
 * SMBIOS ─▶ which cloud, if any ─▶ 169.254.169.254, or the file of cloud-init (NoCloud)
 *                                        │ one parser with limits
 *                                        ▼
 *             machine/cloud-hints.json ◀─ hints ─▶ requested name   (the join policy decides)
 *                                              ─▶ address          (only one that the machine has)
 *                                              ─▶ topology labels  (those that a kubelet may set on its own node)
 * ```
 */
export type { CloudHints } from './parse-hints.ts';
export { addressFrom, nameFrom, topologyFrom } from './use-hints.ts';
export { readCloudHints } from './read-cloud-hints.ts';
