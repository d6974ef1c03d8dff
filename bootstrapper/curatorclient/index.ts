/**
 * This node as a client of its cluster's curators: one client for all workers, which follows the directory.
 *
 * ```
 * clusterMembership ─▶ certificate for each new connection
 * clusterDirectory ──▶ CuratorClient.use(work) ─▶ own curator, else the least busy ─▶ the next one when it fails
 *                             └─ fetchBlob: a component from whoever has it, resumed where it stopped
 * ```
 */
export { fetchBlob, type BlobFetchPorts } from './fetch-blob.ts';
export {
  CuratorClient,
  type CuratorClientOptions,
  type CuratorConnection,
  type Curators,
  type AllCurators,
} from './curator-client.ts';
export { directoryFromMembership, type ClusterDirectory, type ControlPlaneNode } from './directory.ts';
export { CuratorClientError, curatorClientErrors, type CuratorClientErrorCode } from './errors.ts';
