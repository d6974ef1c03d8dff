/**
 * This node as a client of its cluster's curators: one client for all workers, which follows the directory.
 *
 * ```
 * clusterMembership ─▶ certificate for each new connection
 * clusterDirectory ──▶ CuratorClient.use(work) ─▶ own curator, else the least busy ─▶ the next one when it fails
 *                             └─ fetchBlob: a component from whoever has it, resumed where it stopped
 * ```
 */
export { fetchBlob, type BlobFetchPorts } from './blob-fetcher.ts';
export {
  CuratorClient,
  type CuratorClientOptions,
  type CuratorConnection,
  type Curators,
  type EveryCurator,
} from './curator-client.ts';
export { directoryOf, type ClusterDirectory, type ControlPlaneNode } from './directory.ts';
export { CuratorClientError, curatorClientErrors, type CuratorClientErrorCode } from './errors.ts';
