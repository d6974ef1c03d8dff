import { KubeClient, type KubeAccess } from '../../internal/kube/index.ts';
import type { CommandContext } from '../app/command.ts';
import type { StateFile, WorkspaceLayout } from '../workspace/index.ts';
import { inputsHashOf, locateChart, type SourcePorts } from './locate-chart.ts';
import { ChartError } from './errors.ts';
import { helmBinary } from './helm-binary.ts';
import { Helm, helmFailure, type Release } from './helm.ts';
import { NETWORK_CHART, type PlannedChart } from './plan-charts.ts';
import { podProblems } from './pod-problems.ts';

/** What of the environment helm may see: where its own files are, proxies, and trusted authorities. */
const HELM_ENV =
  /^(HOME|PATH|XDG_[A-Z_]+|HELM_[A-Z_]+|SSL_CERT_(FILE|DIR)|(HTTPS?|NO)_PROXY|(https?|no)_proxy)$/;

const SETTLE_POLL_MS = 500;

export interface InstallOptions {
  readonly plan: readonly PlannedChart[];
  readonly layout: WorkspaceLayout;
  readonly state: StateFile;
  readonly access: KubeAccess;
  readonly bundle: SourcePorts['bundle'];
}

export interface InstallSummary {
  readonly installed: readonly string[];
  /** Installed before with the same inputs, and not touched. */
  readonly kept: readonly string[];
  /** Whether the pod network is installed now. */
  readonly network: boolean;
}

/**
 * Installs the planned charts in order. Each one that is done is a checkpoint in the state: the next run goes on after it,
 * and touches it again only when its inputs change or its release is gone.
 */
export async function installCharts(
  context: CommandContext,
  options: InstallOptions,
): Promise<InstallSummary> {
  const { plan, layout, state, access, bundle } = options;
  const network = (): boolean => state.value.charts[NETWORK_CHART] !== undefined;
  if (plan.length === 0) return { installed: [], kept: [], network: network() };
  const { ports, signal, host, env } = context;
  const sources: SourcePorts = { files: ports.files, bundle, root: layout.root, env, signal };
  const helm = new Helm({
    binary: await helmBinary(sources, context.paths.cache),
    commands: ports.commands,
    kubeconfig: layout.kubeconfig,
    env: Object.fromEntries(
      Object.entries(env).flatMap(([key, value]) =>
        HELM_ENV.test(key) && value !== undefined ? [[key, value]] : [],
      ),
    ),
  });
  using client = new KubeClient(access, ports);
  const releases = await listSettled(helm, context);
  const installed: string[] = [];
  const kept: string[] = [];
  for (const chart of plan) {
    const located = await locateChart(chart.source, sources);
    const inputsHash = inputsHashOf(chart, located);
    const release = releases.find(
      ({ name, namespace }) => name === chart.name && namespace === chart.namespace,
    );
    if (release?.status === 'deployed' && state.value.charts[chart.name]?.inputsHash === inputsHash) {
      kept.push(chart.name);
      continue;
    }
    await host.step(`chart-${chart.name}`, `Installing chart ${chart.name}`, async (progress) => {
      progress.update(release === undefined ? 'helm' : `release is ${release.status}`);
      await freePending(helm, release, signal);
      await installOne({ helm, client, signal }, chart, located.args);
    });
    await state.update((value) => ({
      ...value,
      charts: { ...value.charts, [chart.name]: { inputsHash, installedMs: ports.clock.nowMs() } },
    }));
    installed.push(chart.name);
  }
  return { installed, kept, network: network() };
}

/** What is installed, once a helm that outlived an earlier run of ours has ended: two at once would undo each other. */
async function listSettled(helm: Helm, context: CommandContext): Promise<readonly Release[]> {
  const { host, ports, signal } = context;
  if (await helm.isRunningElsewhere(signal)) {
    await host.step('chart-settle', 'Waiting for the helm of an earlier run', async () => {
      while (await helm.isRunningElsewhere(signal)) await ports.clock.sleep(SETTLE_POLL_MS, signal);
    });
  }
  return helm.list(signal).catch((error: unknown) => {
    throw helmFailure('listing what is installed', error);
  });
}

/** A helm that was killed leaves a lock in the release. It was ours, and we hold the workspace: it can go. */
async function freePending(helm: Helm, release: Release | undefined, signal: AbortSignal): Promise<void> {
  if (release === undefined) return;
  const doing = `freeing release ${release.name}, which is ${release.status}`;
  const again = (error: unknown): never => {
    throw helmFailure(doing, error);
  };
  if (release.status === 'pending-install' || release.status === 'uninstalling') {
    await helm.uninstall(release, signal).catch(again);
  } else if (release.status === 'pending-upgrade' || release.status === 'pending-rollback') {
    await helm.rollback(release, signal).catch(again);
  }
}

async function installOne(
  ports: { readonly helm: Helm; readonly client: KubeClient; readonly signal: AbortSignal },
  chart: PlannedChart,
  args: readonly [string, ...string[]],
): Promise<void> {
  const { helm, client, signal } = ports;
  const { name, namespace, values, wait, timeoutSeconds } = chart;
  try {
    await helm.install({ name, namespace, chart: args, values, wait, timeoutSeconds, signal });
  } catch (error) {
    signal.throwIfAborted();
    const failure = helmFailure(`installing chart ${name}`, error);
    if (
      !(failure instanceof ChartError) ||
      (failure.code !== 'charts-timeout' && failure.code !== 'charts-failed')
    )
      throw failure;
    throw await withPods(failure, client, chart, signal);
  }
}

/** helm says "timed out"; the pods say why. */
async function withPods(
  failure: ChartError,
  client: KubeClient,
  chart: PlannedChart,
  signal: AbortSignal,
): Promise<ChartError> {
  const problems = await podProblems(client, chart, signal).catch((): readonly string[] => []);
  if (problems.length === 0) return failure;
  return new ChartError(failure.code, failure.message, {
    cause: new Error(problems.join('; ')),
    details: { problems },
  });
}
