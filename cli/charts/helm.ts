import { printable } from '../../internal/printable/index.ts';
import { ExecError, type CommandRunner } from '../../internal/exec/index.ts';
import type { HelmRelease } from '../../internal/kube/index.ts';
import { ChartError } from './errors.ts';
import type { PlannedChart } from './plan-charts.ts';

const ANSWER_MS = 60_000;
/** A helm process that runs this long beyond its own `--timeout` is killed. */
const GRACE_MS = 60_000;

/** A release to change. */
type Release = Pick<HelmRelease, 'name' | 'namespace'>;

/** The helm program, the cluster, and the environment of helm. */
export interface HelmOptions {
  readonly binary: string;
  readonly commands: CommandRunner;
  /** Path of the kubeconfig. */
  readonly kubeconfig: string;
  readonly env: Readonly<Record<string, string>>;
}

/** The flags with which both majors of helm apply objects and wait in the same way. */
interface HelmFlags {
  readonly apply: readonly string[];
  readonly wait: string;
}

/**
 * Runs the helm program: version 4, or version 3 from a bundle of an earlier release of this program. Both apply objects in the way of
 * version 3. The default of version 4 is server-side apply, in which the API server refuses lists that repeat a name. Its wait includes
 * custom resources, some of which never become ready. Values are passed through standard input, so that arguments contain no
 * secrets.
 */
export class Helm {
  readonly #options: HelmOptions;
  #flags: HelmFlags | undefined;

  constructor(options: HelmOptions) {
    this.#options = options;
  }

  /**
   * Installs or upgrades a release, with these values and no others. Helm stores the labels together with the release, so they
   * are right even if the CLI is killed before it can record the installation.
   * @param located arguments that select the chart
   * @throws ExecError
   */
  async install(
    chart: PlannedChart,
    located: readonly string[],
    labels: Readonly<Record<string, string>>,
    signal: AbortSignal,
  ): Promise<void> {
    const { name, namespace, values, wait, timeoutSeconds } = chart;
    const flags = await this.#readFlags(signal);
    const waiting = wait ? [flags.wait, '--timeout', `${timeoutSeconds}s`] : [];
    const args = ['upgrade', name, ...located, '--install', '--namespace', namespace, '--create-namespace'];
    const pairs = Object.entries(labels).map(([name, value]) => `${name}=${value}`);
    const recorded = ['--labels', pairs.join(','), '--history-max', '5', '--output', 'json'];
    // Without --reset-values, helm takes the values of the last revision if there are none now.
    await this.#run([...args, ...flags.apply, '--reset-values', '--values', '-', ...recorded, ...waiting], {
      input: JSON.stringify(values),
      timeoutMs: timeoutSeconds * 1000 + GRACE_MS,
      signal,
    });
  }

  /** Deletes a release and its resources. @throws ExecError */
  async uninstall(release: Release, signal: AbortSignal): Promise<void> {
    const { name, namespace } = release;
    const { wait } = await this.#readFlags(signal);
    const args = ['uninstall', name, '--namespace', namespace, '--ignore-not-found', wait];
    await this.#run(args, { timeoutMs: ANSWER_MS * 5, signal });
  }

  /** Rolls back to the last deployed revision, which unlocks a release with a pending upgrade. @throws ExecError */
  async rollback(release: Release, signal: AbortSignal): Promise<void> {
    const { apply, wait } = await this.#readFlags(signal);
    await this.#run(['rollback', release.name, '--namespace', release.namespace, ...apply, wait], {
      timeoutMs: ANSWER_MS * 5,
      signal,
    });
  }

  /**
   * Whether a helm process of an earlier, killed run still works on this cluster: helm continues when its parent
   * process is killed.
   */
  async isRunningElsewhere(signal: AbortSignal): Promise<boolean> {
    const path = this.#options.kubeconfig.replaceAll(/[^A-Za-z0-9/_-]/g, '.'); // escaped for the pattern of pgrep
    try {
      const argv = ['pgrep', '-f', `upgrade .* --kubeconfig ${path}$`] as const;
      const options = { argv, okExitCodes: [0, 1], timeoutMs: ANSWER_MS, signal };
      const { exitCode } = await this.#options.commands.run(options);
      return exitCode === 0;
    } catch (error) {
      if (error instanceof ExecError && error.code === 'exec-not-found') return false; // pgrep is not installed
      throw error;
    }
  }

  async #readFlags(signal: AbortSignal): Promise<HelmFlags> {
    if (this.#flags !== undefined) return this.#flags;
    const args = ['version', '--template', '{{.Version}}'];
    const { stdout } = await this.#run(args, { timeoutMs: ANSWER_MS, signal });
    this.#flags = /^v?3\./.test(stdout)
      ? { apply: [], wait: '--wait' }
      : { apply: ['--server-side=false'], wait: '--wait=legacy' };
    return this.#flags;
  }

  #run(
    args: readonly string[],
    options: { readonly input?: string; readonly timeoutMs: number; readonly signal: AbortSignal },
  ): Promise<{ readonly stdout: string }> {
    return this.#options.commands.run({
      argv: [this.#options.binary, ...args, '--kubeconfig', this.#options.kubeconfig],
      env: this.#options.env,
      ...options,
    });
  }
}

/** Patterns of helm’s error messages, by cause. The first pattern that matches decides. */
const MESSAGES = [
  ['charts-timeout', /deadline exceeded|timed out waiting|would exceed context deadline/i],
  [
    'charts-source-unreachable',
    /failed to (download|fetch|do request|resolve|perform "[A-Za-z]+" on source)|no such host|not a valid chart repository|not found in .* (repository|index)|cannot be reached|unexpected status.*40[0-9]|pull access denied/i,
  ],
  [
    'charts-invalid',
    /template:|executing "[^"]*" at <|parse error|execution error|values don't meet the specifications|unable to build kubernetes objects|YAML parse|Chart.yaml|validation:|failed to load|not enough arguments|chart (api)?version$/i,
  ],
] as const;

/** Classifies a failure by helm's output, which is no stable interface: unknown messages become `charts-failed`. */
export function helmFailure(doing: string, error: unknown): unknown {
  if (!(error instanceof ExecError)) return error;
  if (error.code === 'exec-not-found') return new ChartError('charts-helm-missing', doing, { cause: error });
  const output = lastMessage(error.outputTail);
  const cause = new Error(output);
  if (error.code === 'exec-timeout') return new ChartError('charts-timeout', doing, { cause });
  const [code] = MESSAGES.find(([, pattern]) => pattern.test(output)) ?? ['charts-failed'];
  return new ChartError(code, doing, { cause });
}

/** The message after "Error:", which follows helm's log output; else the last three lines. */
function lastMessage(tail: string): string {
  const lines = tail.split('\n').filter((line) => line.trim() !== '');
  const from = lines.findLastIndex((line) => line.startsWith('Error:'));
  return (from < 0 ? lines.slice(-3) : lines.slice(from))
    .map((line) => printable(line))
    .join(' ')
    .replace(/^Error: /, '')
    .slice(0, 1500);
}
