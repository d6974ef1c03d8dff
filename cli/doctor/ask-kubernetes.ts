import { mapConcurrently } from '../../internal/cleanup/index.ts';
import type { ClusterFacts } from '../../internal/doctor/index.ts';
import {
  KubeClient,
  readKubeletDisks,
  readServerTime,
  readServerVersion,
  type KubeAccess,
} from '../../internal/kube/index.ts';
import { printable } from '../../internal/printable/index.ts';
import type { CommandContext } from '../app/command.ts';
import { planCharts, readOwnInputs } from '../charts/index.ts';
import { apiServerUrlOf, currentKubeAccess, readPart } from '../cluster/index.ts';
import { layoutOf, readConfig } from '../workspace/index.ts';
import { AT_ONCE, type ControlPlane } from './ask-curators.ts';
import { isWanted } from './ask-metrics.ts';
import { readKubernetes } from './read-kubernetes.ts';
import { plain } from './read-records.ts';

type KubernetesAnswers = Pick<
  ClusterFacts,
  'clocks' | 'apiServers' | 'kubeconfig' | 'kubernetes' | 'kubelets'
>;

/** Asks the API servers and the kubelets. */
export async function askKubernetes(
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

/** The clocks of these control planes, and the disks that their kubelets report. */
export async function askPlanes(
  context: CommandContext,
  controlPlanes: readonly ControlPlane[],
): Promise<Pick<ClusterFacts, 'clocks' | 'kubelets'>> {
  const access = await currentKubeAccess(context);
  const [first] = controlPlanes;
  if (first === undefined) return { clocks: [], kubelets: [] };
  using client = new KubeClient({ ...access, server: apiServerUrlOf(first.endpoint) }, context.ports);
  const names = controlPlanes.map(({ node }) => node);
  const [clocks, kubelets] = await Promise.all([
    askClocks(context, controlPlanes, access),
    askKubelets(context, client, names),
  ]);
  return { clocks, kubelets };
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
