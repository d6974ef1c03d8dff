import { NETWORK_CHART } from '../../internal/config/index.ts';
import { KubeClient, type KubeAccess } from '../../internal/kube/index.ts';
import type { CommandContext } from '../app/command.ts';
import type { StateFile, WorkspaceLayout } from '../workspace/index.ts';
import { inputsHashOf, locateChart, type SourcePorts } from './locate-chart.ts';
import { ChartError } from './errors.ts';
import { helmEnvironment } from './helm-environment.ts';
import { helmBinary } from './helm-binary.ts';
import { Helm, helmFailure, type Release } from './helm.ts';
import type { PlannedChart } from './plan-charts.ts';
import { podProblems } from './pod-problems.ts';

const SETTLE_POLL_MS = 500;

/** What `installCharts` needs in addition to the context. */
export interface InstallOptions {
  readonly plan: readonly PlannedChart[];
  readonly layout: WorkspaceLayout;
  readonly state: StateFile;
  readonly access: KubeAccess;
  readonly bundle: SourcePorts['bundle'];
  /** Environment variables for the proxy of the cluster; empty without one. */
  readonly proxy: Readonly<Record<string, string>>;
}

/** Result of `installCharts`. */
export interface InstallSummary {
  readonly installed: readonly string[];
  /** Charts that are installed with the same inputs. */
  readonly kept: readonly string[];
  /** Whether the pod network is installed. */
  readonly network: boolean;
}

/**
 * Installs the planned charts in order and saves a checkpoint after each. A later run installs a chart again only when its
 * inputs have changed or its release is missing.
 * @throws ChartError
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
    env: helmEnvironment(env, options.proxy, new URL(access.server).hostname),
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
    const deployed = release?.status === 'deployed';
    if (deployed && state.value.charts[chart.name]?.inputsHash === inputsHash) {
      kept.push(chart.name);
      continue;
    }
    // An earlier run may have been killed after helm finished and before the checkpoint.
    const keep = deployed && (await hasInputs(helm, release, inputsHash, signal));
    if (!keep) {
      await host.step(`chart-${chart.name}`, `Installing chart ${chart.name}`, async (progress) => {
        progress.update(release === undefined ? 'running helm' : `release is ${release.status}`);
        await unlockPending(helm, release, signal);
        await installOne({ helm, client, signal }, chart, located.args, inputsHash);
      });
    }
    await state.update((value) => ({
      ...value,
      charts: { ...value.charts, [chart.name]: { inputsHash, installedMs: ports.clock.nowMs() } },
    }));
    (keep ? kept : installed).push(chart.name);
  }
  return { installed, kept, network: network() };
}

/**
 * Lists the releases once no helm process of an earlier run is left: two processes would interfere with each
 * other.
 */
async function listSettled(helm: Helm, context: CommandContext): Promise<readonly Release[]> {
  const { host, ports, signal } = context;
  if (await helm.isRunningElsewhere(signal)) {
    await host.step('chart-settle', 'Waiting for helm of an earlier run to finish', async () => {
      while (await helm.isRunningElsewhere(signal)) await ports.clock.sleep(SETTLE_POLL_MS, signal);
    });
  }
  return helm.list(signal).catch((error: unknown) => {
    throw helmFailure('listing releases', error);
  });
}

function hasInputs(helm: Helm, release: Release, inputsHash: string, signal: AbortSignal): Promise<boolean> {
  return helm.hasInputs(release, inputsHash, signal).catch((error: unknown) => {
    throw helmFailure(`reading release ${release.name}`, error);
  });
}

/**
 * Ends an operation that a killed helm left unfinished, because helm refuses to upgrade such a release. No
 * other command is working on it: we hold the lock of the workspace.
 */
async function unlockPending(helm: Helm, release: Release | undefined, signal: AbortSignal): Promise<void> {
  if (release === undefined) return;
  const doing = `unlocking release ${release.name} (${release.status})`;
  const rethrow = (error: unknown): never => {
    throw helmFailure(doing, error);
  };
  if (release.status === 'pending-install' || release.status === 'uninstalling') {
    await helm.uninstall(release, signal).catch(rethrow);
  } else if (release.status === 'pending-upgrade' || release.status === 'pending-rollback') {
    await helm.rollback(release, signal).catch(rethrow);
  }
}

async function installOne(
  ports: { readonly helm: Helm; readonly client: KubeClient; readonly signal: AbortSignal },
  chart: PlannedChart,
  args: readonly [string, ...string[]],
  inputsHash: string,
): Promise<void> {
  const { helm, client, signal } = ports;
  try {
    await helm.install(chart, args, inputsHash, signal);
  } catch (error) {
    signal.throwIfAborted();
    const failure = helmFailure(`installing chart ${chart.name}`, error);
    if (
      !(failure instanceof ChartError) ||
      (failure.code !== 'charts-timeout' && failure.code !== 'charts-failed')
    )
      throw failure;
    throw await withPods(failure, client, chart, signal);
  }
}

/** Adds the state of the pods, which explains a timeout or failure of helm. */
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
