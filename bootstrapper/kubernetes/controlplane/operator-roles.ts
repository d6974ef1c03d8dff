import type { CommandRunner } from '../../../internal/exec/index.ts';
import { KUBERNETES_GROUPS } from '../../../internal/role/index.ts';
import { kubectl } from '../kubectl.ts';
import type { StepCheckpoints } from '../step-checkpoints.ts';

/** kubectl compares and writes one object after the other. An emulated control plane needed more than 15 s. */
const RECONCILE_MS = 120_000;
const STEP = 'operator-roles';
const API = 'rbac.authorization.k8s.io';
const READ = ['get', 'list', 'watch'];

/**
 * Viewers may read the objects that belong to no namespace. They may not read Secrets. They also have no right on
 * `nodes/proxy`, with which a user can run commands in pods.
 */
const VIEWER_RULES = [
  { apiGroups: [''], resources: ['nodes', 'persistentvolumes'], verbs: READ },
  { apiGroups: ['storage.k8s.io'], resources: ['storageclasses'], verbs: READ },
  { apiGroups: ['coordination.k8s.io'], resources: ['leases'], verbs: READ },
  { apiGroups: ['apiregistration.k8s.io'], resources: ['apiservices'], verbs: READ },
  {
    apiGroups: ['admissionregistration.k8s.io'],
    resources: ['validatingwebhookconfigurations', 'mutatingwebhookconfigurations'],
    verbs: READ,
  },
  { apiGroups: ['metrics.k8s.io'], resources: ['nodes', 'pods'], verbs: READ },
];

/**
 * Operators have the rights that `cluster node` needs to cordon, drain and remove nodes. They may not create pods: a
 * pod in a system namespace can be root on a node, and can read the keys on a control plane.
 */
const OPERATOR_RULES = [
  { apiGroups: [''], resources: ['nodes'], verbs: ['patch', 'delete'] },
  { apiGroups: [''], resources: ['pods/eviction'], verbs: ['create'] },
  { apiGroups: ['authorization.k8s.io'], resources: ['subjectaccessreviews'], verbs: ['create'] },
];

const OBJECTS = [
  clusterRole('cluster:viewer', VIEWER_RULES),
  clusterRole('cluster:operator', OPERATOR_RULES),
  binding('cluster:viewers-view', 'view', [KUBERNETES_GROUPS.viewer, KUBERNETES_GROUPS.operator]),
  binding('cluster:viewers', 'cluster:viewer', [KUBERNETES_GROUPS.viewer, KUBERNETES_GROUPS.operator]),
  binding('cluster:operators', 'cluster:operator', [KUBERNETES_GROUPS.operator]),
];

/**
 * Gives the groups of viewers and operators their rights in Kubernetes, once for each version of this list. Rules and groups that
 * somebody has added to these objects stay (`kubectl auth reconcile`).
 */
export async function storeOperatorRoles(
  { commands, checkpoints }: { readonly commands: CommandRunner; readonly checkpoints: StepCheckpoints },
  signal: AbortSignal,
): Promise<void> {
  if (await checkpoints.isDone(STEP, OBJECTS)) return;
  const input = JSON.stringify({ apiVersion: 'v1', kind: 'List', items: OBJECTS });
  const options = { input, timeoutMs: RECONCILE_MS };
  await kubectl(commands, ['auth', 'reconcile', '--filename', '-'], signal, options);
  await checkpoints.record(STEP, OBJECTS);
}

function clusterRole(name: string, rules: readonly object[]): object {
  return { apiVersion: `${API}/v1`, kind: 'ClusterRole', metadata: { name }, rules };
}

function binding(name: string, role: string, groups: readonly string[]): object {
  return {
    ...{ apiVersion: `${API}/v1`, kind: 'ClusterRoleBinding', metadata: { name } },
    roleRef: { apiGroup: API, kind: 'ClusterRole', name: role },
    subjects: groups.map((group) => ({ apiGroup: API, kind: 'Group', name: group })),
  };
}
