import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { kill } from 'node:process';
import type { Harness } from '../../machines/harness.ts';
import { helm } from './chart-sources.ts';

interface Release {
  readonly name: string;
  readonly namespace: string;
  readonly revision: string;
  readonly status: string;
  readonly chart: string;
}

/** One entry of `charts:` in cluster.yaml. */
export type ChartEntry = Readonly<Record<string, unknown>>;

/** Drives the operator's CLI and helm: edits the configuration, runs init, and lists the releases. */
export class ChartHarness {
  readonly #bench: Harness;
  readonly #cluster: string;
  readonly #workspace: string;

  constructor(bench: Harness, of: { readonly cluster: string; readonly workspace: string }) {
    this.#bench = bench;
    this.#cluster = of.cluster;
    this.#workspace = of.workspace;
  }

  async configure(charts: readonly ChartEntry[]): Promise<void> {
    const path = join(this.#workspace, 'cluster.yaml');
    const text = await readFile(path, 'utf8');
    // JSON is valid YAML, so the whole list fits on one line.
    const next = text.replace(/^charts: .*$/m, `charts: ${JSON.stringify(charts)}`);
    await writeFile(path, next);
    await this.#bench.must('--workspace', this.#workspace, 'config', 'validate');
  }

  /** Runs `cluster init`. Returns the charts that the command installed, in order, and whether it changed nothing. */
  async init(
    ...flags: readonly string[]
  ): Promise<{ readonly charts: readonly string[]; readonly unchanged: boolean }> {
    const all = ['--workspace', this.#workspace, '--output', 'json', '--events', 'stdout', 'init', ...flags];
    const said = await this.#bench.must(...all);
    const records = said
      .trim()
      .split('\n')
      .map(
        (line) =>
          JSON.parse(line) as { readonly type: string; readonly code?: string; readonly data?: unknown },
      );
    const result = records.find(({ type }) => type === 'result')?.data as { readonly unchanged: boolean };
    const started = records.filter(({ type }) => type === 'step-started').map(({ code = '' }) => code);
    const charts = started
      .filter((code) => code.startsWith('chart-'))
      .map((code) => code.slice('chart-'.length));
    return { charts, unchanged: result.unchanged };
  }

  async list(): Promise<readonly Release[]> {
    return JSON.parse(await helm('list', '-A', '-o', 'json', ...this.#access())) as Release[];
  }

  /** Lines of "name revision", sorted. */
  async releases(): Promise<readonly string[]> {
    return (await this.list()).map(({ name, revision }) => `${name} ${revision}`).sort();
  }

  /** Upgrades a release as somebody without cluster.yaml would. @param set one value, as `helm --set` takes it */
  async upgradeManually(name: string, namespace: string, chart: string, set: string): Promise<void> {
    await helm('upgrade', name, chart, '--namespace', namespace, '--set', set, ...this.#access());
  }

  /** The values of a release that are not defaults of its chart. */
  async values(name: string, namespace: string): Promise<unknown> {
    const given = await helm(
      'get',
      'values',
      name,
      '--namespace',
      namespace,
      '-o',
      'json',
      ...this.#access(),
    );
    return JSON.parse(given) ?? {};
  }

  async kubectl(...args: readonly string[]): Promise<string> {
    return (
      await this.#bench.must('mini', 'exec', '--name', this.#cluster, 'n1', '--', 'kubectl', ...args)
    ).trim();
  }

  /** Kills the helm process that a killed CLI left behind. Its kubeconfig path identifies it. */
  async killHelm(): Promise<void> {
    const [, kubeconfig = ''] = this.#access();
    const { stdout } = await this.#bench.machines.commands.run({
      argv: ['pgrep', '-f', `upgrade .* --kubeconfig ${kubeconfig}$`],
      signal: this.#bench.signal,
    });
    for (const pid of stdout.trim().split('\n')) kill(Number(pid), 'SIGKILL');
  }

  #access(): readonly [string, string] {
    return ['--kubeconfig', join(this.#workspace, 'kubeconfig')];
  }
}
