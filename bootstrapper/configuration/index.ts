/**
 * The part of the cluster's configuration (cluster.yaml) that nodes act on while they run: registries of images, and
 * issuers whose tokens the API server accepts.
 *
 * ```
 * directory worker ─▶ clusterConfiguration (hash) ─▶ configurationWorker ─▶ fetches, verifyConfiguration ─▶ signedConfiguration
 *                                                                                                             │
 *                                                                            registries, authentication ◀─────┘
 * ```
 *
 * The node trusts the signature of an owner, not the curator that sends the configuration. Without such a signature,
 * nothing is published, and the files on disk stay unchanged.
 */
export { configurationWorker } from './configuration-worker.ts';
export type { ConfigurationFloors } from './verify-configuration.ts';
