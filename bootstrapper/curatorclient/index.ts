/**
 * This node as a client of its cluster's curators: one client for all workers, which follows the directory.
 *
 * ```
 * clusterMembership ─▶ certificate for each new connection
 * clusterDirectory ──▶ CuratorClient.use(work) ─▶ own curator, else the least busy ─▶ the next one when it fails
 *                             └─ fetchBlob: a component from whoever has it, resumed where it stopped
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
export { CuratorClientError, type CuratorClientErrorCode, curatorClientErrors } from './errors.ts';
