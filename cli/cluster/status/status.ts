import { JoinState } from '../../../joinservice/curatorproto/gen/operatorapi_pb.js';
import type { ExitName } from '../../../internal/errors/index.ts';
import { withTimeout } from '../../../internal/cleanup/index.ts';
import {
  type HelmRelease,
  KubeClient,
  KubeError,
  type KubeNode,
  listNodes,
  listPods,
  listReleases,
  readinessOf,
} from '../../../internal/kube/index.ts';
import type { CommandContext } from '../../app/command.ts';
import { formatFields } from '../../host/index.ts';
import { readFromServing, servingAccess } from '../curator/api-servers.ts';
import { currentKubeAccess } from '../kubeconfig/renew-kubeconfig.ts';
import { callCurator } from '../curator/call-curator.ts';
import { fetchKeysView } from './keys-view.ts';
import { saveKnownCurators } from '../curator/known-curators.ts';
import { readCaller, type Caller } from '../curator/caller.ts';
import type { LabelSelector } from './label-selector.ts';
import { readPart } from './read-part.ts';
import { watchResult } from './watch.ts';
import { readLastNodes, renderLastNodes, saveLastNodes } from './last-nodes.ts';
import { countPods } from './count-pods.ts';
import {
  nodeViewsFrom,
  type NodeView,
  renderCertificates,
  nodeListing,
  renderNodes,
  type KubernetesView,
} from './node-view.ts';
import { describeCredentials, readCredentialExpiry } from './credential-expiry.ts';
import { printable } from '../../../internal/printable/index.ts';
import {
  etcdFrom,
  kubernetesEtcdFrom,
  chartsLines,
  quorumFrom,
  curatorLines,
  kubernetesLine,
  problemsOf,
  type CuratorPart,
  type KubernetesPart,
  type Part,
} from './status-view.ts';

/** A dead API server must not hold up the list of nodes. */
const KUBELETS_MS = 4_000;

/** Flags of `cluster status`. */
export interface StatusOptions {
  readonly wide?: boolean;
  readonly watch?: boolean;
  /** Problems that only the workspace knows, such as interrupted commands. */
  readonly problemsOfWorkspace?: (
    context: CommandContext,
    nodes: readonly NodeView[],
  ) => Promise<readonly string[]>;
}

/** Flags of `cluster node ls`. */
export interface NodeListOptions {
  readonly wide?: boolean;
  /** Which nodes to list, by their labels; default: all. */
  readonly wanted?: LabelSelector;
}

/** `cluster status`. Returns `unhealthy` when a part of the cluster cannot be read or has a problem. */
export async function runStatus(context: CommandContext, given: StatusOptions): Promise<ExitName> {
  const { wide, watch, problemsOfWorkspace = async () => [] } = given;
  const options = { wide: wide === true || context.host.isWide, problemsOfWorkspace };
  return watch === true
    ? watchResult(context, () => showStatus(context, options))
    : showStatus(context, options);
}

async function showStatus(
  context: CommandContext,
  options: Required<Pick<StatusOptions, 'wide' | 'problemsOfWorkspace'>>,
): Promise<ExitName> {
  const caller = await readCaller(context);
  const [curator, kubernetes] = await Promise.all([
    readPart(context, () => readCurator(context, caller)),
    readPart(context, () => readKubernetes(context)),
  ]);
  const yours = await readCredentialExpiry(context); // read after the requests above, because they may renew the credentials
  const nowMs = context.ports.clock.nowMs();
  // A caller who is not an owner may have no kubeconfig, so an unread Kubernetes status is a problem only for owners.
  const isKubernetesRequired = kubernetes.ok || caller.kind === 'owner';
  const problems = curator.ok
    ? [
        ...problemsOf(curator.value, kubernetes.ok ? kubernetes.value : undefined, nowMs),
        ...(await options.problemsOfWorkspace(context, curator.value.nodes)),
      ]
    : [];
  const healthy = curator.ok && kubernetes.ok === isKubernetesRequired && problems.length === 0;
  const lastNodes = curator.ok ? undefined : await readLastNodes(context, caller);
  const { clusterId } = caller;
  const name = curator.ok ? curator.value.name : await caller.readName();
  context.host.result({ name, clusterId, healthy, yours, curator, kubernetes, lastNodes }, () =>
    [
      `Cluster ${name === '' ? '' : `${name}  `}${clusterId}`,
      formatFields([
        ...curatorLines(curator, nowMs),
        ...(isKubernetesRequired ? [kubernetesLine(kubernetes)] : []),
        ['your credentials', describeCredentials(yours, nowMs)],
        ...chartsLines(kubernetes),
      ]),
      ...(curator.ok ? ['', renderNodeTable(curator.value, kubernetes, { ...options, nowMs })] : []),
      ...(lastNodes === undefined ? [] : ['', renderLastNodes(lastNodes, nowMs)]),
      ...(curator.ok && options.wide ? ['', renderCertificates(curator.value.nodes, nowMs), ''] : []),
      ...problems.map((text) => `! ${text}`),
      ...(healthy ? [] : ['`cluster doctor` checks every layer and names the likely cause.']),
    ].join('\n'),
  );
  return healthy ? 'ok' : 'unhealthy';
}

/** `cluster node ls`. */
export async function runNodeList(
  context: CommandContext,
  { wide = false, wanted = () => true }: NodeListOptions,
): Promise<void> {
  const caller = await readCaller(context);
  const [nodes, kubelets] = await Promise.all([
    callCurator(context, async ({ curator }) => {
      const [list, info] = await Promise.all([curator.listNodes({}), curator.getClusterInfo({})]);
      await saveKnownCurators(context.ports.files, caller.curatorsPath, info);
      return list.nodes;
    }),
    readKubelets(context),
  ]);
  const views = nodeViewsFrom(nodes);
  await saveLastNodes(context, caller, views);
  const shown = views
    .filter(({ labels }) => wanted(labels))
    .map((view) => ({ ...view, ...kubelets(view.name) }));
  context.host.list(nodeListing(shown, { nowMs: context.ports.clock.nowMs(), wide }));
}

async function readCurator(context: CommandContext, caller: Caller): Promise<CuratorPart> {
  return callCurator(context, async (clients) => {
    const [info, { nodes }, { joins }, keys] = await Promise.all([
      clients.curator.getClusterInfo({ probeMembers: true }),
      clients.curator.listNodes({}),
      clients.operatorApi.listJoins({ states: [JoinState.PENDING] }),
      fetchKeysView(clients),
    ]);
    await saveKnownCurators(context.ports.files, caller.curatorsPath, info);
    const [views, etcd] = [nodeViewsFrom(nodes), etcdFrom(info.etcd)];
    await saveLastNodes(context, caller, views);
    return {
      name: printable(info.clusterName),
      createdMs: Number(info.createdMs),
      etcd,
      kubernetesEtcd: kubernetesEtcdFrom(nodes),
      quorum: quorumFrom(etcd, views),
      pendingJoins: joins.length,
      keys,
      nodes: views,
    };
  });
}

function kubeletsOf(nodes: KubernetesPart['nodes']): (name: string) => KubernetesView {
  const views = new Map(
    nodes.map(
      ({ name, ready, isCordoned }) => [name, { kubelet: ready ? 'Ready' : 'NotReady', isCordoned }] as const,
    ),
  );
  return (name) => views.get(name) ?? { kubelet: undefined };
}

function kubernetesNodesFrom(nodes: readonly KubeNode[]): KubernetesPart['nodes'] {
  return nodes.map((node) => ({
    name: node.metadata.name,
    ...readinessOf(node),
    ...(node.spec.unschedulable && { isCordoned: true }),
  }));
}

/** What the Kubernetes API reports, with the kubeconfig of the workspace. */
export async function readKubernetes(context: CommandContext): Promise<KubernetesPart> {
  const access = await servingAccess(context);
  const named = await currentKubeAccess(context);
  using client = new KubeClient(access, context.ports);
  const { signal } = context;
  const [nodes, pods, charts] = await Promise.all([
    listNodes(client, signal),
    listPods(client, { signal }),
    readReleases(client, signal),
  ]);
  return {
    server: access.server,
    ...(named.server === access.server ? {} : { silentServer: named.server }),
    nodes: kubernetesNodesFrom(nodes),
    pods: countPods(pods, nodes),
    charts,
  };
}

/** The releases of helm; undefined for a caller who may not list Secrets, where helm stores them. */
async function readReleases(
  client: KubeClient,
  signal: AbortSignal,
): Promise<readonly HelmRelease[] | undefined> {
  try {
    return await listReleases(client, signal);
  } catch (error) {
    if (error instanceof KubeError && error.code === 'kube-refused') return undefined;
    throw error;
  }
}

/**
 * Reads the state of each node's kubelet from Kubernetes. The list of nodes does not wait long for it: without a response, every
 * kubelet is `Unknown`; without a kubeconfig, the state is undefined.
 */
async function readKubelets(context: CommandContext): Promise<(name: string) => KubernetesView> {
  const { clock } = context.ports;
  const waiting = { what: 'reading nodes from Kubernetes', ms: KUBELETS_MS, clock, signal: context.signal };
  const part = await readPart(context, () =>
    withTimeout(waiting, async (signal) =>
      kubeletsOf(kubernetesNodesFrom(await readFromServing({ ...context, signal }, listNodes))),
    ),
  );
  if (part.ok) return part.value;
  return () => ({ kubelet: part.codes.includes('cluster-no-kubeconfig') ? undefined : 'Unknown' });
}

function renderNodeTable(
  { nodes }: CuratorPart,
  kubernetes: Part<KubernetesPart>,
  options: { readonly wide: boolean; readonly nowMs: number },
): string {
  const kubelets = kubernetes.ok
    ? kubeletsOf(kubernetes.value.nodes)
    : (): KubernetesView => ({ kubelet: 'Unknown' });
  return renderNodes(
    nodes.map((node) => ({ ...node, ...kubelets(node.name) })),
    options,
  );
}
