/**
 * How this node pulls images (`registries:` and `proxy:` of cluster.yaml): mirrors, private CAs and credentials of registries, and the
 * HTTP proxy, for containerd.
 *
 * ```
 * signedConfiguration ─▶ registries ────────────────────────────────────────────────┐
 * API server ─▶ Secret kube-system/cluster-registry-credentials ─▶ parseCredentials ─┴─▶ writeRegistries ─▶ certs.d/NAME/
 * ```
 *
 * containerd reads these files at each pull, so a change restarts nothing. It reads the proxy only at its start. Directories that an operator made in certs.d are never
 * changed.
 */
export { readRegistryCredentials } from './credentials.ts';
export { proxyWorker } from './proxy-worker.ts';
export { removeRegistries } from './write-registries.ts';
export { registriesWorker } from './registries-worker.ts';
