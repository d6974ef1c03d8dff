/** Use cases on a cluster, each a visible list of steps. Commands call them; they talk through the host. */
export { generateWorkspace, runConfigGenerate, runConfigSchema, runConfigValidate } from './config.ts';
export type { GenerateOptions } from './config.ts';
export { askCurator, type AskOptions, type CuratorClient, type CuratorServices } from './curator-session.ts';
export { ClusterError, clusterErrors, type ClusterErrorCode } from './errors.ts';
export { runInit, runInitCommand, type InitOptions, type InitSummary } from './init.ts';
export { keepKnownCurators } from './known-curators.ts';
export { identityPathOf, readMember, type ClusterMember } from './member.ts';
export { askPreflight, type MachineCheckResult } from './machine-preflight.ts';
export { readAccess } from './keep-result.ts';
export { runKubeconfig } from './kubeconfig.ts';
export { currentAccess, kubernetesPlace, renewKubeconfig } from './renew-kubeconfig.ts';
export { nodeViewFrom, renderNodes, type NodeView } from './node-view.ts';
export { askForKeys, describePhase, type KeysView } from './keys-view.ts';
export { lookAtWorkspace, openWorkspace, type OpenWorkspace } from './open-workspace.ts';
export { kubernetesEtcdOf } from './status-view.ts';
export { runNodeList, runStatus, type StatusOptions } from './status.ts';
