/**
 * Client of the cluster's curators. All workers of the agent share this client, which follows changes of the
 * directory of curators.
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
export { CuratorClientError } from './errors.ts';
