import { mapConcurrently } from '../../internal/cleanup/index.ts';
import type { ClusterFacts } from '../../internal/doctor/index.ts';
import { formatEndpoint, hostOf, PORTS } from '../../internal/endpoint/index.ts';
import {
  KubeClient,
  readKubeletDisks,
  readServerTime,
  readServerVersion,
  type KubeAccess,
} from '../../internal/kube/index.ts';
import { printable } from '../../internal/printable/index.ts';
import { probeTcp } from '../../internal/rpc/index.ts';
import { VERSION } from '../../internal/versions/index.ts';
import type { CheckHealthResponse } from '../../joinservice/curatorproto/gen/curator_pb.js';
import type { CommandContext } from '../app/command.ts';
import {
  apiServerUrlOf,
  callCurator,
  currentKubeAccess,
  readCaller,
  readCredentialExpiry,
  readKnownCurators,
  readLastNodes,
  readPart,
  type Caller,
} from '../cluster/index.ts';
import { planCharts, readOwnInputs } from '../charts/index.ts';
import { layoutOf, readConfig, StateFile } from '../workspace/index.ts';
import { askEvidence } from './ask-evidence.ts';
import { metricsFrom } from './parse-metrics.ts';
import { readKubernetes } from './read-kubernetes.ts';
import { hasSlowFsyncs, withFasterFsyncs } from './slow-fsyncs.ts';
import { plain, readRecords, type CuratorAnswer } from './read-records.ts';

const METRICS_MS = 15_000;
const JOIN_SERVICE_MS = 5_000;
/** The most clocks that the facts have of one curator. */
const MAX_CLOCKS = 10_000;
/** How many nodes are asked at the same time. */
const AT_ONCE = 8;

/** What to collect. */
export interface CollectOptions {
  /** The nodes to ask for their own facts, besides control planes; empty: all. */
  readonly nodes: readonly string[];
  /** Time between two readings of the metrics. */
  readonly windowMs: number;
}

/** A control plane: the name of its node, or its address while the name is not known. */
interface ControlPlane {
  readonly node: string;
  /** "HOST:PORT" of its curator. */
  readonly endpoint: string;
}

/**
 * Collects the facts of the cluster of the workspace. A part that cannot be read has its error instead; only a workspace
 * without a cluster ends the collection.
 * @throws ClusterError `cluster-not-initialized`, `cluster-identity-not-granted`
 */
export async function collectFacts(
  context: CommandContext,
  { nodes, windowMs }: CollectOptions,
): Promise<ClusterFacts> {
  const caller = await readCaller(context);
  const answer = plain(
    await readPart(context, () => callCurator(context, (clients) => readRecords(context, clients))),
  );
  const found = answer.ok ? answer.value : undefined;
  const controlPlanes = await controlPlanesOf(context, caller, found);
  const curators = await askCurators(context, controlPlanes);
  const serving = controlPlanes.filter((_, index) => curators[index]?.answer.ok);
  const [joinServices, kubernetes, metrics, evidence] = await Promise.all([
    askJoinServices(controlPlanes),
    askKubernetes(context, { controlPlanes, nodes }),
    measure(context, { found, serving, nodes, windowMs }),
    // While `measure` waits between its two readings, so that a small cluster takes no longer.
    askEvidence(context, {
      nodes: (found?.nodes ?? []).filter(({ name }) => isWanted(nodes, printable(name))),
      only: serving.map(({ endpoint }) => endpoint),
    }),
  ]);
  const { certificateMs, kubeconfigMs } = await readCredentialExpiry(context);
  const charts = await installedCharts(context, caller);
  return {
    version: 1,
    takenMs: context.ports.clock.nowMs(),
    cliVersion: VERSION,
    clusterId: caller.clusterId,
    clusterName: printable(found?.info.clusterName ?? (await caller.readName())),
    credentials: { certificateMs, ...(kubeconfigMs !== undefined && { kubeconfigMs }) },
    ...recordParts(answer),
    ...{ curators, joinServices, ...kubernetes },
    ...{ metrics, evidence },
    ...(charts && { charts }),
  };
}

type RecordParts = Pick<ClusterFacts, 'records' | 'keys' | 'joins' | 'documents' | 'collateral' | 'backups'>;

function recordParts(answer: ReturnType<typeof plain<CuratorAnswer>>): RecordParts {
  if (!answer.ok)
    return {
      records: answer,
      keys: answer,
      joins: answer,
      documents: answer,
      collateral: answer,
      backups: answer,
    };
  const { records, keys, joins, documents, collateral, backups } = answer.value;
  return {
    records: { ok: true, value: records },
    keys,
    joins,
    documents,
    collateral,
    ...(backups && { backups }),
  };
}

/** The control planes that a curator lists now; if no curator responds, those that it listed last. */
async function controlPlanesOf(
  context: CommandContext,
  caller: Caller,
  found: CuratorAnswer | undefined,
): Promise<readonly ControlPlane[]> {
  if (found !== undefined)
    return found.info.directory
      .filter(({ curatorEndpoint }) => curatorEndpoint !== '')
      .map(({ name, curatorEndpoint: endpoint }) => ({ node: printable(name) || endpoint, endpoint }))
      .toSorted((a, b) => a.node.localeCompare(b.node, 'en', { numeric: true }));
  const known = await readKnownCurators(context.ports.files, caller.curatorsPath);
  const names = new Map(
    (await readLastNodes(context, caller))?.nodes.map(({ address, name }) => [address, name]),
  );
  return [...new Set([...known, ...caller.curatorEndpoints])].map((endpoint) => ({
    node: names.get(hostOf(endpoint)) ?? endpoint,
    endpoint,
  }));
}

function askCurators(
  context: CommandContext,
  controlPlanes: readonly ControlPlane[],
): Promise<ClusterFacts['curators']> {
  return mapConcurrently(controlPlanes, AT_ONCE, async ({ node, endpoint }) => ({
    node,
    answer: plain(
      await readPart(context, async () => {
        const request = { withClocks: true };
        const health = await callCurator(context, ({ curator }) => curator.checkHealth(request), {
          only: [endpoint],
        });
        return { clocks: clocksFrom(health) };
      }),
    ),
  }));
}

/**
 * Only whether the port is open: a request of an operator would be refused, and the curator is a part of the same program, so its answer
 * shows that the program works.
 */
function askJoinServices(
  controlPlanes: readonly ControlPlane[],
): Promise<NonNullable<ClusterFacts['joinServices']>> {
  return mapConcurrently(controlPlanes, AT_ONCE, async ({ node, endpoint }) => {
    const host = hostOf(endpoint);
    const probe = await probeTcp(host, PORTS.join, JOIN_SERVICE_MS);
    const error = `connecting to ${formatEndpoint(host, PORTS.join)}: ${probe}`;
    const codes = ['rpc-unreachable'];
    return { node, answer: probe === 'open' ? { ok: true, value: {} } : { ok: false, error, codes } };
  });
}

function clocksFrom({ clocks }: CheckHealthResponse): { nodeId: string; ms: number }[] {
  return clocks
    .slice(0, MAX_CLOCKS)
    .map(({ nodeId, offsetMs }) => ({ nodeId: printable(nodeId), ms: Number(offsetMs) }))
    .filter(({ ms }) => Number.isSafeInteger(ms));
}

interface Measured extends CollectOptions {
  readonly found: CuratorAnswer | undefined;
  readonly serving: readonly ControlPlane[];
}

/**
 * The metrics of each node: two readings, because the checks judge only the fsyncs between them. If some were slow, they are measured again:
 * another program may have kept the disk busy for a moment.
 */
async function measure(context: CommandContext, of: Measured): Promise<ClusterFacts['metrics']> {
  const before = await askMetrics(context, of);
  if (before.length === 0) return [];
  const after = await askLater(context, of);
  const measured = metricsBetween(before, after);
  if (!measured.some(({ answer }) => answer.ok && hasSlowFsyncs(answer.value))) return measured;
  const again = new Map(
    metricsBetween(after, await askLater(context, of)).map(({ node, answer }) => [node, answer]),
  );
  return measured.map(({ node, answer }) => {
    const second = again.get(node);
    const isBoth = answer.ok && second?.ok === true;
    return {
      node,
      answer: isBoth ? { ok: true, value: withFasterFsyncs(answer.value, second.value) } : answer,
    };
  });
}

type Pages = Awaited<ReturnType<typeof askMetrics>>;

async function askLater(context: CommandContext, of: Measured): Promise<Pages> {
  await context.ports.clock.sleep(of.windowMs, context.signal);
  return askMetrics(context, of);
}

function metricsBetween(before: Pages, after: Pages): ClusterFacts['metrics'] {
  const pages = new Map(before.map(({ node, answer }) => [node, answer.ok ? answer.value : '']));
  return after.map(({ node, answer }) => ({
    node,
    answer: answer.ok ? { ok: true, value: metricsFrom(answer.value, pages.get(node)) } : answer,
  }));
}

/** The metrics of each node as text, through a curator that serves. */
async function askMetrics(context: CommandContext, { found, serving, nodes }: Measured) {
  // Control planes are always included: without their metrics nothing is known about etcd as a whole.
  const members = (found?.records.nodes ?? []).filter(
    ({ state, name, isControlPlane }) => state === 'up' && (isControlPlane || isWanted(nodes, name)),
  );
  const only = serving.map(({ endpoint }) => endpoint);
  return mapConcurrently(members, AT_ONCE, async ({ name: node }) => ({
    node,
    answer: plain(
      await readPart(context, async () => {
        const limits = { timeoutMs: METRICS_MS };
        const { text } = await callCurator(
          context,
          ({ nodeStreams }) => nodeStreams.getMetrics({ node }, limits),
          { only },
        );
        return text;
      }),
    ),
  }));
}

type KubernetesAnswers = Pick<
  ClusterFacts,
  'clocks' | 'apiServers' | 'kubeconfig' | 'kubernetes' | 'kubelets'
>;

async function askKubernetes(
  context: CommandContext,
  of: { readonly controlPlanes: readonly ControlPlane[]; readonly nodes: readonly string[] },
): Promise<KubernetesAnswers> {
  const access = plain(await readPart(context, () => currentKubeAccess(context)));
  // An operator without a kubeconfig cannot ask any API server.
  if (!access.ok) return { clocks: [], apiServers: [], kubernetes: access, kubelets: [] };
  const [clocks, apiServers, kubeconfig] = await Promise.all([
    askClocks(context, of.controlPlanes, access.value),
    askApiServers(context, of.controlPlanes, access.value),
    askServerOf(context, access.value),
  ]);
  const serving = apiServers.findIndex(({ answer }) => answer.ok);
  // If no control plane has an API server that responds, the server of the kubeconfig is called: it may be an external
  // load balancer.
  const server = of.controlPlanes[serving]?.endpoint;
  const url = server === undefined ? access.value.server : apiServerUrlOf(server);
  using client = new KubeClient({ ...access.value, server: url }, context.ports);
  const ownInputs = await configuredInputs(context);
  const kubernetes = plain(await readPart(context, () => readKubernetes(client, ownInputs, context.signal)));
  const names = kubernetes.ok ? kubernetes.value.nodes.map(({ name }) => name) : [];
  const kubelets = await askKubelets(
    context,
    client,
    names.filter((name) => isWanted(of.nodes, name)),
  );
  return { clocks, apiServers, kubeconfig, kubernetes, kubelets };
}

function askClocks(
  context: CommandContext,
  controlPlanes: readonly ControlPlane[],
  { caPem }: KubeAccess,
): Promise<ClusterFacts['clocks']> {
  const { ports, signal } = context;
  return mapConcurrently(controlPlanes, AT_ONCE, async ({ node, endpoint }) => ({
    node,
    offset: plain(
      await readPart(context, async () => ({
        ms: await readServerTime({ server: apiServerUrlOf(endpoint), caPem }, { clock: ports.clock, signal }),
      })),
    ),
  }));
}

function askApiServers(
  context: CommandContext,
  controlPlanes: readonly ControlPlane[],
  access: KubeAccess,
): Promise<ClusterFacts['apiServers']> {
  return mapConcurrently(controlPlanes, AT_ONCE, async ({ node, endpoint }) => {
    using client = new KubeClient({ ...access, server: apiServerUrlOf(endpoint) }, context.ports);
    const read = async () => ({ version: printable(await readServerVersion(client, context.signal)) });
    return { node, answer: plain(await readPart(context, read)) };
  });
}

/** Whether kubectl reaches the cluster: its server may be a load balancer, or a control plane that was removed. */
async function askServerOf(
  context: CommandContext,
  access: KubeAccess,
): Promise<NonNullable<ClusterFacts['kubeconfig']>> {
  using client = new KubeClient(access, context.ports);
  const read = async () => {
    await readServerVersion(client, context.signal);
    return {};
  };
  return { server: printable(access.server), answer: plain(await readPart(context, read)) };
}

function askKubelets(
  context: CommandContext,
  client: KubeClient,
  nodes: readonly string[],
): Promise<ClusterFacts['kubelets']> {
  return mapConcurrently(nodes, AT_ONCE, async (node) => ({
    node,
    answer: plain(
      await readPart(context, async () => ({
        fileSystems: [...(await readKubeletDisks(client, node, context.signal))],
      })),
    ),
  }));
}

/** The inputs of the charts in cluster.yaml; none without a valid one. */
async function configuredInputs(context: CommandContext): Promise<ReadonlyMap<string, string>> {
  const { ports, paths, env, signal } = context;
  const layout = layoutOf(paths.workspace);
  const plan = await readPart(context, async () =>
    planCharts(await readConfig(ports.files, layout), { kind: 'all' }),
  );
  if (!plan.ok) return new Map();
  return readOwnInputs(plan.value, { files: ports.files, root: layout.root, env, signal });
}

/** Charts that were installed from this workspace; undefined for an operator, whose workspace installs none. */
async function installedCharts(
  { paths, ports }: CommandContext,
  { kind }: Caller,
): Promise<string[] | undefined> {
  if (kind === 'operator') return undefined;
  const { value } = await StateFile.read(ports.files, layoutOf(paths.workspace));
  return Object.keys(value.charts);
}

function isWanted(nodes: readonly string[], name: string): boolean {
  return nodes.length === 0 || nodes.includes(name);
}
