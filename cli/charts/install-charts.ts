import { NETWORK_CHART } from '../../internal/config/index.ts';
import { plainHost } from '../../internal/endpoint/index.ts';
import {
  KubeClient,
  listReleases,
  RELEASE_LABELS,
  type HelmRelease,
  type KubeAccess,
} from '../../internal/kube/index.ts';
import type { CommandContext } from '../app/command.ts';
import type { StateFile, WorkspaceLayout } from '../workspace/index.ts';
import { inputsHashOf, inputsLabel, locateChart, type SourcePorts } from './locate-chart.ts';
import { ChartError } from './errors.ts';
import { helmEnvironment } from './helm-environment.ts';
import { helmBinary } from './helm-binary.ts';
import { Helm, helmFailure } from './helm.ts';
import type { PlannedChart } from './plan-charts.ts';
import { podProblems } from './pod-problems.ts';
import { refuseOtherBackend } from './refuse-other-backend.ts';

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
 * inputs have changed, or its release is missing or was changed by another program.
 * @throws ChartError, KubeError
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
    env: helmEnvironment(env, options.proxy, plainHost(new URL(access.server).hostname)),
  });
  using client = new KubeClient(access, ports);
  await refuseOtherBackend(client, plan, signal);
  const releases = await listSettled({ helm, client }, context);
  const installed: string[] = [];
  const kept: string[] = [];
  for (const chart of plan) {
    const located = await locateChart(chart.source, sources);
    const inputsHash = inputsHashOf(chart, located);
    const release = releaseOf(chart, releases);
    const keep = isInstalled(release, inputsHash);
    if (!keep) {
      await host.step(`chart-${chart.name}`, `Installing chart ${chart.name}`, async (progress) => {
        progress.update(release === undefined ? 'running helm' : `release is ${release.status}`);
        const isUnlocked = await unlockPending(helm, release, signal);
        const last = isUnlocked ? releaseOf(chart, await listReleases(client, signal)) : release;
        const labels = {
          [RELEASE_LABELS.inputs]: inputsLabel(inputsHash),
          [RELEASE_LABELS.revision]: String((last?.revision ?? 0) + 1),
        };
        await installOne({ helm, client, signal }, { chart, args: located.args, labels });
      });
    }
    // An earlier run may have been killed after helm finished and before the checkpoint.
    if (state.value.charts[chart.name]?.inputsHash !== inputsHash || !keep) {
      await state.update((value) => ({
        ...value,
        charts: { ...value.charts, [chart.name]: { inputsHash, installedMs: ports.clock.nowMs() } },
      }));
    }
    (keep ? kept : installed).push(chart.name);
  }
  return { installed, kept, network: network() };
}

/**
 * Lists the releases once no helm process of an earlier run is left: two processes would interfere with each
 * other.
 */
async function listSettled(
  { helm, client }: { readonly helm: Helm; readonly client: KubeClient },
  context: CommandContext,
): Promise<readonly HelmRelease[]> {
  const { host, ports, signal } = context;
  if (await helm.isRunningElsewhere(signal)) {
    await host.step('chart-settle', 'Waiting for helm of an earlier run to finish', async () => {
      while (await helm.isRunningElsewhere(signal)) await ports.clock.sleep(SETTLE_POLL_MS, signal);
    });
  }
  return listReleases(client, signal);
}

function releaseOf(
  { name, namespace }: PlannedChart,
  releases: readonly HelmRelease[],
): HelmRelease | undefined {
  return releases.find((each) => each.name === name && each.namespace === namespace);
}

/** Whether a release is deployed with these inputs, and is as `cluster init` left it. Earlier versions did not label the revision. */
function isInstalled(release: HelmRelease | undefined, inputsHash: string): boolean {
  if (release?.status !== 'deployed' || release.inputs !== inputsLabel(inputsHash)) return false;
  return (release.installedRevision ?? release.revision) === release.revision;
}

/**
 * Ends an operation that a killed helm left unfinished, because helm refuses to upgrade such a release. No
 * other command is working on it: we hold the lock of the workspace.
 * @returns whether the release was changed
 */
async function unlockPending(
  helm: Helm,
  release: HelmRelease | undefined,
  signal: AbortSignal,
): Promise<boolean> {
  if (release === undefined) return false;
  const doing = `unlocking release ${release.name} (${release.status})`;
  const rethrow = (error: unknown): never => {
    throw helmFailure(doing, error);
  };
  if (release.status === 'pending-install' || release.status === 'uninstalling') {
    await helm.uninstall(release, signal).catch(rethrow);
  } else if (release.status === 'pending-upgrade' || release.status === 'pending-rollback') {
    await helm.rollback(release, signal).catch(rethrow);
  } else {
    return false;
  }
  return true;
}

async function installOne(
  ports: { readonly helm: Helm; readonly client: KubeClient; readonly signal: AbortSignal },
  what: {
    readonly chart: PlannedChart;
    readonly args: readonly string[];
    readonly labels: Readonly<Record<string, string>>;
  },
): Promise<void> {
  const { helm, client, signal } = ports;
  const { chart, args, labels } = what;
  try {
    await helm.install(chart, args, labels, signal);
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
