/**
 * Use cases of the commands that create, join and show a cluster. Each is a list of steps, shown through the host.
 *
 *     config/      cluster.yaml and the workspace         kubeconfig/  the kubeconfig of the workspace
 *     init/        `cluster init`                         curator/     calls to curators, and the caller's credentials
 *     machine/     the first machine: trust, preflight    status/      `cluster status`, `cluster node ls`
 *     join/        `cluster join`
 */
export { generateWorkspace, runConfigGenerate, runConfigSchema, runConfigValidate } from './config/config.ts';
export { runConfigPassphrase } from './config/passphrase.ts';
export type { GenerateOptions } from './config/config.ts';
export { apiServerUrlOf } from './curator/api-servers.ts';
export { findNode, withKubernetes } from './curator/cluster-access.ts';
export { callCurator, newMutation, withCuratorRetries, type CuratorClients } from './curator/call-curator.ts';
export { ClusterError, clusterErrors } from './errors.ts';
export { clusterIdFrom } from './init/init-request.ts';
export { findLocalManifest } from './init/local-bundle.ts';
export { findLiveCluster } from './init/find-live-cluster.ts';
export type { RestoreSource, SnapshotSource } from './init/restore-source.ts';
export { runInit, runInitCommand, type InitOptions, type InitSummary } from './init/init.ts';
export { readKnownCurators, readSeenEpoch, saveKnownCurators } from './curator/known-curators.ts';
export { identityPathOf, readCaller, type Caller } from './curator/caller.ts';
export { withKnownMachine, type KnownMachine } from './machine/known-machine.ts';
export { callPreflight, type MachineCheckResult } from './machine/machine-preflight.ts';
export { readKubeAccess } from './kubeconfig/kubeconfig-file.ts';
export { runKubeconfig } from './kubeconfig/kubeconfig.ts';
export { changeServer } from './kubeconfig/change-server.ts';
export { currentKubeAccess, kubernetesEndpointOf, renewKubeconfig } from './kubeconfig/renew-kubeconfig.ts';
export {
  describeDisk,
  errorText,
  nodeStatusText,
  nodeViewFrom,
  renderNodes,
  timeOf,
  type NodeView,
} from './status/node-view.ts';
export { parseSelector } from './status/label-selector.ts';
export { watchResult } from './status/watch.ts';
export { fetchKeysView, describeRotationPhase, type KeysView, type NewKeysView } from './status/keys-view.ts';
export { readWorkspace, openWorkspace, type OpenWorkspace } from './open-workspace.ts';
export { readCredentialExpiry } from './status/credential-expiry.ts';
export { readLastNodes } from './status/last-nodes.ts';
export { readPart } from './status/read-part.ts';
export {
  curatorLines,
  etcdFrom,
  kubernetesEtcdOf,
  problemsOf,
  quorumFrom,
  type CuratorPart,
  type KubernetesPart,
  type Part,
} from './status/status-view.ts';
export { runVersion } from './status/show-version.ts';
export { readKubernetes, runNodeList, runStatus, type StatusOptions } from './status/status.ts';
export { runJoin, type JoinOptions } from './join/join.ts';
export { explainRemoteError, localChannel, remoteChannel } from './join/machine-channel.ts';
