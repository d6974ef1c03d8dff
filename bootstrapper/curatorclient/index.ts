/**
 * Client of the cluster's curators, shared by all workers of this node; it follows the directory.
 *
 * ```
 * clusterMembership ─▶ certificate for each new connection
 * clusterDirectory ──▶ CuratorClient.use(work) ─▶ own curator, else the least busy ─▶ the next one on failure
 * ```
 */
export {
  type AllCurators,
  CuratorClient,
  type CuratorClientOptions,
  type CuratorConnection,
  type Curators,
} from './curator-client.ts';
export { type ClusterDirectory, type ControlPlaneNode, directoryFromMembership } from './directory.ts';
export { CuratorClientError, type CuratorClientErrorCode } from './errors.ts';
