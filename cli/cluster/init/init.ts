import { versionsFor } from '../../../internal/bundle/index.ts';
import {
  canonicalJson,
  clusterPartOf,
  proxyEnvironmentFrom,
  serversWithCredentials,
  type ClusterConfig,
} from '../../../internal/config/index.ts';
import type { MasterSecret } from '../../../internal/crypto/index.ts';
import { parseEndpoint, PORTS } from '../../../internal/endpoint/index.ts';
import { KubeClient, waitForApi, waitForNodeReady } from '../../../internal/kube/index.ts';
import type { CommandContext, StepProgress } from '../../app/command.ts';
import { requireLogins, storeLogins } from '../../registries/index.ts';
import { installCharts, planCharts, type ChartSelection } from '../../charts/index.ts';
import { readConfig, readMasterSecret, readOwnerKey, type OwnerKey } from '../../workspace/index.ts';
import { readLocalBundle, workstationArchitecture } from './local-bundle.ts';
import type { RestoreSource } from './restore-source.ts';
import { acknowledgeInit } from './acknowledge.ts';
import { runInitJob } from './run-init-job.ts';
import { chooseMachine, type MachineOptions } from '../machine/choose-machine.ts';
import { adminKeyFrom, clusterIdFrom, initIdFrom } from './init-request.ts';
import { saveWorkspaceCa } from '../curator/known-ca.ts';
import { readKnownCurators } from '../curator/known-curators.ts';
import { recoverResult } from './recover-result.ts';
import { openWorkspace, type OpenWorkspace } from '../open-workspace.ts';
import { ownerIssuer } from '../machine/init-session.ts';
import { writeKubeconfig, readKubeAccess, restoreKubeconfig } from '../kubeconfig/kubeconfig-file.ts';

const READY_TIMEOUT_MS = 5 * 60 * 1000;

/** Flags of `cluster init`. */
export interface InitOptions extends MachineOptions {
  readonly kubernetesVersion?: string | undefined;
  readonly charts: ChartSelection;
  /** The backup that is restored; without it the cluster starts empty. */
  readonly restore?: RestoreSource | undefined;
}

/** Result of `cluster init`. */
export interface InitSummary {
  readonly clusterId: string;
  readonly clusterName: string;
  readonly nodeName: string;
  readonly apiServer: string;
  readonly kubeconfig: string;
  /** Whether the cluster existed and nothing had to be done. */
  readonly unchanged: boolean;
}

/**
 * Creates the cluster on the first machine, or resumes an interrupted run. Each step is saved before the next one starts:
 *
 *     workspace ─▶ machine ─▶ components ─▶ init on the machine ─▶ result saved ─▶ acknowledged ─▶ API ─▶ charts ─▶ Ready
 */
export async function runInit(context: CommandContext, options: InitOptions): Promise<InitSummary> {
  await using workspace = await openWorkspace(context, 'cluster init');
  const config = await effectiveConfig(context, workspace, options);
  const plan = planCharts(config, options.charts);
  const before = workspace.state.value.init?.stage;
  if (before !== 'acknowledged')
    await requireLogins(context.ports.files, workspace.layout, config.registries);
  if (before !== 'acknowledged') await createCluster(context, { workspace, config, options });
  else if (await restoreKubeconfig(context, workspace, config.name))
    context.host.say('init-kubeconfig-restored', 'The kubeconfig was missing and was created again');
  const access = await readKubeAccess(context.ports.files, workspace.layout);
  using client = new KubeClient(access, context.ports);
  await awaitApi(context, client);
  const { layout, state } = workspace;
  // Runs before the charts are installed, because their images may come from these registries.
  if (serversWithCredentials(config.registries).length > 0) {
    const { signal, ports } = context;
    const { registries } = config;
    await storeLogins({ client, files: ports.files, layout, registries, keepsOthers: true, signal });
  }
  const bundle = await readLocalBundle(context, config.kubernetesVersion, workstationArchitecture());
  const proxy = proxyEnvironmentFrom(canonicalJson(clusterPartOf(config)));
  const charts = await installCharts(context, { plan, layout, state, access, bundle, proxy });
  const nodeName = workspace.state.value.init?.result?.nodeName ?? '';
  if (charts.network) await awaitNode(context, client, nodeName);
  return {
    clusterId: workspace.state.value.init?.result?.clusterId ?? '',
    clusterName: config.name,
    nodeName,
    apiServer: access.server,
    kubeconfig: workspace.layout.kubeconfig,
    unchanged: before === 'acknowledged' && charts.installed.length === 0,
  };
}

/** `cluster init`. */
export async function runInitCommand(context: CommandContext, options: InitOptions): Promise<void> {
  const summary = await runInit(context, options);
  context.host.result(summary, () => renderSummary(summary, context.paths.workspace));
}

/** The part that needs the init service of the machine, up to an acknowledged result. */
async function createCluster(
  context: CommandContext,
  what: { readonly workspace: OpenWorkspace; readonly config: ClusterConfig; readonly options: InitOptions },
): Promise<void> {
  const { workspace, config, options } = what;
  const ownerKey = await readOwnerKey(context, workspace.layout);
  const masterSecret = await readMasterSecret(context, workspace.layout);
  const { restore } = options;
  // While a cluster is restored, a curator can only be one of the machines that the restored cluster replaces.
  if (restore === undefined && (await recoverWorkspace(context, what, { ownerKey, masterSecret }))) return;
  const owner = ownerIssuer(ownerKey);
  const machine = await chooseMachine(context, {
    config,
    options,
    owner,
    started: workspace.state.value.init,
  });
  if (workspace.state.value.init?.stage !== 'granted') {
    await runInitJob(context, { workspace, config, machine, owner, ownerKey, masterSecret, restore });
  }
  await writeKubeconfig(context.ports.files, workspace, { clusterName: config.name, masterSecret });
  await acknowledgeInit(context, { workspace, config, machine, owner, ownerKey });
}

/**
 * Finds the cluster of a workspace that lost everything except its keys. Returns whether it found the
 * cluster.
 */
async function recoverWorkspace(
  context: CommandContext,
  { workspace, config, options }: Parameters<typeof createCluster>[1],
  keys: { readonly ownerKey: OwnerKey; readonly masterSecret: MasterSecret },
): Promise<boolean> {
  if (workspace.state.value.init?.result !== undefined) return false;
  const { files, clock } = context.ports;
  const named = options.node ?? config.firstNode.endpoint ?? workspace.state.value.init?.endpoint;
  const init = named === undefined ? undefined : parseEndpoint(named, PORTS.init);
  const first = init === undefined ? [] : [init.replace(/:[0-9]+$/, `:${PORTS.curator}`)];
  const { masterSecret, ownerKey } = keys;
  const id = initIdFrom(masterSecret);
  const known = await readKnownCurators(files, workspace.layout.curators);
  const asked = {
    endpoints: [...new Set([...first, ...known])],
    initId: id,
    clusterId: clusterIdFrom(masterSecret),
    ownerKey,
    adminKeyPem: adminKeyFrom(masterSecret),
    caFile: { path: workspace.layout.clusterCa, of: id },
  };
  const recovered = await context.host.step('init-look', 'Checking whether the cluster exists already', () =>
    recoverResult(context, asked),
  );
  if (recovered === undefined) return false;
  const { result, ca } = recovered;
  if (ca !== undefined) await saveWorkspaceCa(files, asked.caFile, ca);
  const fingerprint = options.fingerprint ?? config.firstNode.fingerprint ?? '';
  await workspace.state.update((state) => ({
    ...state,
    init: {
      ...{ id, endpoint: init ?? '', fingerprint, requestHash: '', startedMs: clock.nowMs() },
      ...{ stage: 'acknowledged', result },
    },
  }));
  await writeKubeconfig(files, workspace, { clusterName: config.name, masterSecret });
  const text = 'The cluster of this workspace exists; the missing files of the workspace were restored';
  context.host.say('init-recovered', text, { clusterId: result.clusterId });
  return true;
}

async function effectiveConfig(
  context: CommandContext,
  workspace: OpenWorkspace,
  options: InitOptions,
): Promise<ClusterConfig> {
  const config = await readConfig(context.ports.files, workspace.layout);
  const { kubernetesVersion = config.kubernetesVersion } = options;
  versionsFor(kubernetesVersion); // throws for an unsupported version
  return { ...config, kubernetesVersion };
}

/** Waits until this workstation can reach the Kubernetes API, because it installs the charts from here. */
async function awaitApi(context: CommandContext, client: KubeClient): Promise<void> {
  await context.host.step('init-api', `Waiting for the Kubernetes API at ${client.server}`, (progress) =>
    waitForApi(client, waitOptions(context, progress)),
  );
}

/** Waits until the node is Ready, which requires a pod network. */
async function awaitNode(context: CommandContext, client: KubeClient, name: string): Promise<void> {
  await context.host.step('init-node-ready', `Waiting for node ${name} to become Ready`, (progress) =>
    waitForNodeReady(client, name, waitOptions(context, progress)),
  );
}

function waitOptions({ ports, signal }: CommandContext, progress: StepProgress) {
  const onWait = (text: string): void => progress.update(text);
  return { clock: ports.clock, signal, timeoutMs: READY_TIMEOUT_MS, onWait };
}

function renderSummary(summary: InitSummary, workspace: string): string {
  const { clusterName, clusterId, nodeName, apiServer, kubeconfig, unchanged } = summary;
  return [
    unchanged ? `Cluster ${clusterName} exists; nothing was changed.` : `Cluster ${clusterName} is running.`,
    `  cluster ID  ${clusterId}`,
    `  first node  ${nodeName}`,
    `  API server  ${apiServer}`,
    `  kubeconfig  ${kubeconfig}`,
    '',
    `Next: cluster status --workspace ${workspace}`,
    `      kubectl --kubeconfig ${kubeconfig} get nodes`,
  ].join('\n');
}
