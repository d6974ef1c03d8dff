/**
 * The part of the cluster's configuration (cluster.yaml) that nodes act on while they run: registries of images, and issuers whose
 * tokens the API server accepts.
 *
 * ```
 * directory worker ─▶ clusterConfiguration (hash) ─▶ configurationWorker ─▶ fetches, verifyConfiguration ─▶ signedConfiguration
 *                                                                                                             │
 *                                                                            registries, authentication ◀─────┘
 * ```
 *
 * A curator proves nothing: the signature of an owner does. Without one, nothing is published, and what is on disk stays.
 */
export { configurationWorker } from './configuration-worker.ts';
export type { ConfigurationFloors } from './verify-configuration.ts';
