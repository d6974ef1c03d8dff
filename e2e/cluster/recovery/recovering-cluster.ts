import type { Harness, CliResult } from '../../machines/harness.ts';
import { connectToApi } from '../harness/api-counter.ts';
import { installCli, StoryCluster } from '../harness/story-cluster.ts';
import { eventually } from '../harness/node-shell.ts';
import { LocalEtcd, recoverQuorum, type Recovery } from './local-etcd.ts';

const CONFIG_MAPS = '/api/v1/namespaces/default/configmaps';
const UNHEALTHY = 10;

interface ConfigMaps {
  readonly items: readonly { readonly metadata: { readonly name: string }; readonly data?: { x?: string } }[];
}

/** Three control planes (n1 to n3) and a worker (n4). The quorum is recovered from n1. */
export class RecoveringCluster {
  readonly machines: StoryCluster;
  /** Path of the owner's kubeconfig on the workstation. */
  readonly kubeconfig: string;
  readonly #bench: Harness;
  readonly #workspace: string;
  readonly #hosts: ReadonlyMap<string, string>;

  private constructor(
    bench: Harness,
    machines: StoryCluster,
    at: { readonly workspace: string; readonly hosts: ReadonlyMap<string, string> },
  ) {
    this.#bench = bench;
    this.machines = machines;
    this.#workspace = at.workspace;
    this.#hosts = at.hosts;
    this.kubeconfig = `${at.workspace}/kubeconfig`;
  }

  static async up(bench: Harness, name: string): Promise<RecoveringCluster> {
    await bench.must('mini', 'up', '--name', name, '--control-planes', '3', '--workers', '1', '--demo');
    const machines = new StoryCluster(bench, name);
    await installCli(bench, name, 'n1');
    const hosts = ['n1', 'n2', 'n3', 'n4'].map(async (each) => [each, await machines.address(each)] as const);
    return new RecoveringCluster(bench, machines, {
      workspace: await machines.workspace(),
      hosts: new Map(await Promise.all(hosts)),
    });
  }

  hostOf(machine: string): string {
    const host = this.#hosts.get(machine);
    if (host === undefined) throw new RangeError(`there is no machine ${machine}`);
    return host;
  }

  /** One etcd member of a machine, by default of the Kubernetes etcd. */
  etcdOf(machine: string, etcd: 'state' | 'kubernetes' = 'kubernetes'): LocalEtcd {
    return new LocalEtcd(this.#bench, this.machines, machine, etcd);
  }

  /** Runs the workstation's CLI. Does not throw if the command fails. */
  cli(...args: readonly string[]): Promise<CliResult> {
    return this.#bench.cli('--workspace', this.#workspace, ...args);
  }

  recover(...flags: readonly string[]): Promise<Recovery> {
    return recoverQuorum(this.machines, 'n1', ...flags);
  }

  async labelsOf(node: string): Promise<Readonly<Record<string, string>>> {
    return (await this.machines.cliJson<{ labels: Record<string, string> }>('node', 'show', node)).labels;
  }

  /**
   * The value in a ConfigMap according to one machine's API server; undefined if the ConfigMap does not
   * exist.
   */
  async seenAt(machine: string, name: string): Promise<string | undefined> {
    const api = await connectToApi(this.kubeconfig, [this.hostOf(machine)]);
    const { items } = (await api('GET', CONFIG_MAPS)) as ConfigMaps;
    return items.find(({ metadata }) => metadata.name === name)?.data?.x;
  }

  /** Writes through one machine's API server. Resolves when the write is acknowledged. */
  async write(machine: string, name: string, x: string): Promise<void> {
    const api = await connectToApi(this.kubeconfig, [this.hostOf(machine)]);
    const isThere = (await this.seenAt(machine, name)) !== undefined;
    const object = { metadata: { name }, data: { x } };
    await (isThere ? api('PUT', `${CONFIG_MAPS}/${name}`, object) : api('POST', CONFIG_MAPS, object));
  }

  async quorumLost(): Promise<void> {
    await eventually(
      'the cluster reports that its quorum is lost',
      60,
      () => this.cli('status'),
      ({ code, stdout }) => code === UNHEALTHY && /^quorum +LOST/m.test(stdout),
    );
  }

  async healthy(withinSeconds: number): Promise<void> {
    await eventually(
      'the cluster is healthy',
      withinSeconds,
      () => this.cli('status'),
      ({ code }) => code === 0,
    );
  }

  /** Waits until `cluster node ls` shows the nodes as healthy, or as not responding. */
  async health(health: 'Healthy' | 'NotResponding', nodes: readonly string[]): Promise<void> {
    await eventually(
      `${nodes.join(' and ')}: ${health}`,
      90,
      () => this.cli('node', 'ls'),
      ({ stdout }) => nodes.every((node) => new RegExp(`^${node} +${health} `, 'm').test(stdout)),
    );
  }
}
