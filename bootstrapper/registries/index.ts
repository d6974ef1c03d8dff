/**
 * Registries of this node (`registries:` of cluster.yaml): mirrors, private CAs and credentials, for containerd.
 *
 * ```
 * signedConfiguration ─▶ registries ────────────────────────────────────────────────┐
 * API server ─▶ Secret kube-system/cluster-registry-credentials ─▶ parseCredentials ─┴─▶ writeRegistries ─▶ certs.d/NAME/
 * ```
 *
 * containerd reads these files at each pull, so a change restarts nothing. Directories that an operator made in certs.d are never
 * changed.
 */
export { readRegistryCredentials } from './credentials.ts';
export { removeRegistries } from './write-registries.ts';
export { registriesWorker } from './registries-worker.ts';
