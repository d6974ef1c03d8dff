import type { LocalCluster, LocalNode } from '../../internal/machines/index.ts';
import type { CommandContext } from '../app/command.ts';
import { askDemo, demoChart } from './demo.ts';
import { awaitAgent, checkHost, claimCluster, prepareLayers, startNode } from './machines.ts';
import { machineHostFrom } from './places.ts';

export interface MiniUpOptions {
  readonly name: string;
  readonly kubernetesVersion: string | undefined;
  /** Machines only, no cluster on them. */
  readonly nodesOnly: boolean;
  /** Machines start with an empty store and are given what they need by the CLI. */
  readonly emptyStore: boolean;
  /** Make the bundle when it is not there. */
  readonly build: boolean;
  /** With the sample chart, and ask it. */
  readonly demo: boolean;
  /** The agent's Debian package instead of the one that was built. */
  readonly agent: string | undefined;
}

const FIRST_NODE = 'n1';
const INIT_PORT = 9000;

/**
 * A whole cluster on this machine, or what is missing of it: machines in containers, then the very
 * same `init` that bare machines get. Run again it goes on, or finds that all is there.
 */
export async function runMiniUp(context: CommandContext, options: MiniUpOptions): Promise<void> {
  const machines = machineHostFrom(context);
  await checkHost(context, machines);
  if (!options.nodesOnly) await prepareBundle(context, options);
  const layers = await prepareLayers(context, machines, options.agent);
  const cluster = await claimCluster(context, machines, options.name);
  await using _lock = await cluster.lock();
  const own = inWorkspaceOf(context, cluster);
  const ownerKeys = await prepareWorkspace(own, options);
  const { emptyStore } = options;
  const node = await startNode(context, cluster, { name: FIRST_NODE, layers, ownerKeys, emptyStore });
  if (options.nodesOnly) tellMachines(context, cluster, node);
  else await makeCluster(own, { cluster, node, options });
}

/** A command that can be copied: with `npx` where that is how this one was called. */
function nextCommand({ env }: CommandContext, { name }: LocalCluster, rest: string): string {
  const program = env['npm_lifecycle_event'] === undefined ? 'cluster' : 'npx cluster';
  return `Next: ${program} mini exec${name === 'mini' ? '' : ` --name ${name}`} ${rest}`;
}

/** The same run with the local cluster's own workspace. */
function inWorkspaceOf(context: CommandContext, cluster: LocalCluster): CommandContext {
  return { ...context, paths: { ...context.paths, workspace: cluster.paths.workspace } };
}

/** Before anything is made: a cluster without its components ends nowhere. */
async function prepareBundle(context: CommandContext, options: MiniUpOptions): Promise<void> {
  const { buildBundle, bundleContext, readBundle } = await import('../bundle/index.ts');
  const { DEFAULT_KUBERNETES_VERSION } = await import('../../internal/bundle/index.ts');
  const kubernetesVersion = options.kubernetesVersion ?? DEFAULT_KUBERNETES_VERSION;
  const bundle = bundleContext(context);
  if (options.build) await buildBundle(bundle, { kubernetesVersion });
  else await readBundle(bundle, kubernetesVersion);
}

/** The workspace comes before the machines: they are provisioned with its owner key. */
async function prepareWorkspace(context: CommandContext, options: MiniUpOptions): Promise<readonly [string]> {
  return context.host.step('mini-workspace', 'Preparing the workspace', async () => {
    const { generateWorkspace } = await import('../cluster/index.ts');
    const { ownerKey } = await generateWorkspace(context, {
      name: options.name,
      kubernetesVersion: options.kubernetesVersion,
      local: true,
      charts: options.demo ? [demoChart] : [],
    });
    return [ownerKey.pubKeyBase64];
  });
}

async function makeCluster(
  context: CommandContext,
  made: { readonly cluster: LocalCluster; readonly node: LocalNode; readonly options: MiniUpOptions },
): Promise<void> {
  const { cluster, node, options } = made;
  const fingerprint = await awaitAgent(context, node);
  const { runInit } = await import('../cluster/index.ts');
  const summary = await runInit(context, {
    node: `${node.address}:${INIT_PORT}`,
    fingerprint,
    kubernetesVersion: options.kubernetesVersion,
    charts: { kind: 'all' },
  });
  const demo = options.demo ? await askDemo(context, node.address) : undefined;
  const { workspace } = cluster.paths;
  context.host.result({ ...summary, workspace, node: node.name, address: node.address, demo }, () =>
    [
      summary.unchanged
        ? `Local cluster ${cluster.name} is there; nothing was changed.`
        : `Local cluster ${cluster.name} runs.`,
      `  machine     ${node.name} at ${node.address}`,
      `  API         ${summary.apiServer}`,
      `  workspace   ${workspace}`,
      `  kubeconfig  ${summary.kubeconfig}`,
      ...(demo === undefined ? [] : [`  sample      ${demo.url} says: ${demo.answer}`]),
      '',
      nextCommand(context, cluster, `${node.name} -- kubectl get pods -A`),
    ].join('\n'),
  );
}

function tellMachines(context: CommandContext, cluster: LocalCluster, node: LocalNode): void {
  const { workspace } = cluster.paths;
  context.host.result({ cluster: cluster.name, workspace, node: node.name, address: node.address }, () =>
    [
      `Machine ${node.name} of local cluster ${cluster.name} runs at ${node.address}.`,
      nextCommand(context, cluster, `${node.name} -- bash`),
    ].join('\n'),
  );
}
