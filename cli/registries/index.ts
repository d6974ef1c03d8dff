/**
 * User names and passwords for registries. They go from a file of the workspace into one Secret of Kubernetes, which encrypts it
 * in etcd, and from there to every node; they are in no record of the cluster, argument or log.
 *
 * ```
 * registry-credentials.json ─▶ requireLogins (before init) ─▶ storeLogins ─▶ Secret kube-system/cluster-registry-credentials
 * ```
 */
export { requireLogins } from './read-logins.ts';
export { storeLogins } from './store-logins.ts';
