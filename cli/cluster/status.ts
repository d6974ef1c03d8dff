import type { GetClusterInfoResponse } from '../../joinservice/curatorproto/gen/curator_pb.js';
import { describeError, type ExitName } from '../../internal/errors/index.ts';
import { KubeClient, listNodes, listPods, readinessOf } from '../../internal/kube/index.ts';
import type { CommandContext } from '../app/command.ts';
import { formatBytes, formatDuration } from '../host/index.ts';
import { askCurator } from './curator-session.ts';
import { ClusterError } from './errors.ts';
import { keepKnownCurators } from './known-curators.ts';
import { readAccess } from './keep-result.ts';
import { nodeViewFrom, renderNodes, type NodeView } from './node-view.ts';
import { lookAtWorkspace } from './open-workspace.ts';

/** A part of the picture: what it says, or why it could not be had. */
type Part<T> = { readonly ok: true; readonly value: T } | { readonly ok: false; readonly error: string };

interface CuratorPart {
  readonly createdMs: number;
  readonly etcd: {
    readonly dbSizeBytes: number;
    readonly quotaBytes: number;
    readonly hasLeader: boolean;
    readonly members: number;
    readonly learners: number;
  };
  readonly nodes: readonly NodeView[];
}

interface KubernetesPart {
  readonly server: string;
  readonly nodes: readonly { readonly name: string; readonly ready: boolean; readonly why: string }[];
  readonly pods: { readonly total: number; readonly notReady: readonly string[] };
}

export interface StatusOptions {
  readonly wide: boolean;
}

/** `cluster status`: what is where, since when, in which state. Answers `unhealthy` when a part is not as it should be. */
export async function runStatus(context: CommandContext, options: StatusOptions): Promise<ExitName> {
  const { config, layout, state } = await lookAtWorkspace(context);
  const { init, charts } = state.value;
  if (init?.result === undefined) {
    const stage =
      init === undefined ? 'no init was begun' : `init ${init.id} on ${init.endpoint} has not finished`;
    throw new ClusterError('cluster-not-initialized', `looking at ${layout.root}: ${stage}`);
  }
  const [curator, kubernetes] = await Promise.all([
    part(context, () => readCurator(context, { layout, state })),
    part(context, () => readKubernetes(context, layout)),
  ]);
  const healthy = curator.ok && kubernetes.ok && troubles(curator.value, kubernetes.value).length === 0;
  const { clusterId } = init.result;
  const data = { name: config.name, clusterId, healthy, curator, kubernetes, charts: Object.keys(charts) };
  context.host.result(data, () =>
    [
      `Cluster ${config.name}  ${clusterId}`,
      ...renderCurator(curator, context.ports.clock.nowMs()),
      ...renderKubernetes(kubernetes),
      `charts      ${Object.keys(charts).join(', ') || 'none'}`,
      ...(curator.ok ? ['', renderNodeTable(curator.value, kubernetes, context, options)] : []),
      ...(curator.ok && kubernetes.ok
        ? troubles(curator.value, kubernetes.value).map((text) => `! ${text}`)
        : []),
    ].join('\n'),
  );
  return healthy ? 'ok' : 'unhealthy';
}

/** `cluster node ls`. */
export async function runNodeList(context: CommandContext, options: StatusOptions): Promise<void> {
  const { layout, state } = await lookAtWorkspace(context);
  const nodes = await askCurator(context, { layout, state }, async (curator, call) => {
    const [list, info] = await Promise.all([curator.listNodes({}, call), curator.getClusterInfo({}, call)]);
    await keepKnownCurators(context.ports.files, layout, info.directory);
    return list.nodes;
  });
  const views = nodes.map(nodeViewFrom);
  context.host.result({ nodes: views }, () =>
    renderNodes(views, { nowMs: context.ports.clock.nowMs(), wide: options.wide }),
  );
}

async function part<T>(context: CommandContext, read: () => Promise<T>): Promise<Part<T>> {
  try {
    return { ok: true, value: await read() };
  } catch (error) {
    context.signal.throwIfAborted();
    return { ok: false, error: describeError(error) };
  }
}

type Looked = Pick<Awaited<ReturnType<typeof lookAtWorkspace>>, 'layout' | 'state'>;

async function readCurator(context: CommandContext, from: Looked): Promise<CuratorPart> {
  return askCurator(context, from, async (curator, call) => {
    const [info, { nodes }] = await Promise.all([
      curator.getClusterInfo({}, call),
      curator.listNodes({}, call),
    ]);
    await keepKnownCurators(context.ports.files, from.layout, info.directory);
    return { createdMs: Number(info.createdMs), etcd: etcdFrom(info), nodes: nodes.map(nodeViewFrom) };
  });
}

function etcdFrom({ etcd }: GetClusterInfoResponse): CuratorPart['etcd'] {
  const members = etcd?.members ?? [];
  return {
    dbSizeBytes: Number(etcd?.dbSizeBytes ?? 0n),
    quotaBytes: Number(etcd?.quotaBytes ?? 0n),
    hasLeader: etcd?.hasLeader ?? false,
    members: members.filter(({ isLearner }) => !isLearner).length,
    learners: members.filter(({ isLearner }) => isLearner).length,
  };
}

async function readKubernetes(context: CommandContext, layout: Looked['layout']): Promise<KubernetesPart> {
  const access = await readAccess(context.ports.files, layout);
  using client = new KubeClient(access, context.ports);
  const { signal } = context;
  const [nodes, pods] = await Promise.all([listNodes(client, signal), listPods(client, { signal })]);
  const notReady = pods.filter(
    ({ status }) =>
      status.phase !== 'Succeeded' &&
      !status.conditions.some(({ type, status: is }) => type === 'Ready' && is === 'True'),
  );
  return {
    server: access.server,
    nodes: nodes.map((node) => ({ name: node.metadata.name, ...readinessOf(node) })),
    pods: {
      total: pods.length,
      notReady: notReady.map(({ metadata }) => `${metadata.namespace}/${metadata.name}`),
    },
  };
}

/** Each with the name of what it is about. */
function troubles(curator: CuratorPart, kubernetes: KubernetesPart): readonly string[] {
  const { etcd, nodes } = curator;
  return [
    ...(etcd.hasLeader ? [] : ['etcd has no leader']),
    ...(etcd.quotaBytes > 0 && etcd.dbSizeBytes > 0.8 * etcd.quotaBytes
      ? ['etcd has used more than 80 % of its quota']
      : []),
    ...nodes
      .filter(({ health }) => health !== 'healthy')
      .map(({ name, health }) => `node ${name} is ${health}`),
    ...nodes.flatMap(({ name, lastError }) =>
      lastError === undefined ? [] : [`node ${name}: ${lastError}`],
    ),
    ...kubernetes.nodes.filter(({ ready }) => !ready).map(({ name, why }) => `kubelet of ${name}: ${why}`),
    ...kubernetes.pods.notReady.map((name) => `pod ${name} is not ready`),
  ];
}

function renderCurator(curator: Part<CuratorPart>, nowMs: number): readonly string[] {
  if (!curator.ok) return [`curator     not reached: ${curator.error}`];
  const { etcd, createdMs } = curator.value;
  const learners = etcd.learners === 0 ? '' : ` and ${etcd.learners} learning`;
  const quota = `${formatBytes(etcd.dbSizeBytes)} of ${formatBytes(etcd.quotaBytes)}`;
  return [
    `created     ${formatDuration(nowMs - createdMs)} ago`,
    `etcd        ${etcd.members} member${etcd.members === 1 ? '' : 's'}${learners}, ${etcd.hasLeader ? 'has a leader' : 'no leader'}, ${quota}`,
  ];
}

function renderKubernetes(kubernetes: Part<KubernetesPart>): readonly string[] {
  if (!kubernetes.ok) return [`kubernetes  not reached: ${kubernetes.error}`];
  const { server, pods } = kubernetes.value;
  return [`kubernetes  ${server}, ${pods.total - pods.notReady.length} of ${pods.total} pods ready`];
}

function renderNodeTable(
  curator: CuratorPart,
  kubernetes: Part<KubernetesPart>,
  context: CommandContext,
  options: StatusOptions,
): string {
  const ready = new Map(kubernetes.ok ? kubernetes.value.nodes.map((node) => [node.name, node.ready]) : []);
  return renderNodes(curator.nodes, { nowMs: context.ports.clock.nowMs(), wide: options.wide, ready });
}
