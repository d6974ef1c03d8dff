import assert from 'node:assert/strict';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { hostAddress, type LocalNode } from '../../../internal/localmachines/index.ts';
import { parse, stringify } from 'yaml';
import type { Harness, CliResult } from '../../machines/harness.ts';
import { etcdctlArgv, eventually } from './node-shell.ts';

/** Lines of "NAME STATUS TIME": what each kubelet said last of itself, and when. */
export const READY = `jsonpath={range .items[*]}{.metadata.name} {range .status.conditions[?(@.type=="Ready")]}{.status} {.lastHeartbeatTime}{end}{"\\n"}{end}`;

/** What `--output json` ends with. */
export async function cliJson<T>(bench: Harness, ...args: readonly string[]): Promise<T> {
  const lines = (await bench.must(...args, '--output', 'json')).trim().split('\n');
  const last = JSON.parse(lines.at(-1) ?? '{}') as { readonly type: string; readonly data: T };
  assert.equal(last.type, 'result');
  return last.data;
}

/** A local cluster of a story, seen from its machines and from the workstation. */
export class StoryCluster {
  readonly name: string;
  readonly #bench: Harness;
  /** Since when machines are on that were off: what their kubelets said before counts for nothing. */
  readonly #onSinceMs = new Map<string, number>();

  constructor(bench: Harness, name: string) {
    this.#bench = bench;
    this.name = name;
  }

  /**
   * Machines that are switched on and wait; their cluster's `cluster.yaml` as `edit` makes it. With empty stores they have
   * nothing of the bundle and get it from the workstation or from each other.
   */
  async machines(
    counts: { readonly controlPlanes: number; readonly workers: number; readonly emptyStores?: true },
    edit: (yaml: string) => string = (yaml) => yaml,
  ): Promise<void> {
    const flags = ['--control-planes', String(counts.controlPlanes), '--workers', String(counts.workers)];
    if (counts.emptyStores === true) flags.push('--empty-store');
    await this.#bench.must('mini', 'up', '--nodes-only', '--name', this.name, ...flags);
    await this.edit(edit);
  }

  /** Edits the operator's `cluster.yaml`. The change is active only after `config apply`. */
  async edit(change: (yaml: string) => string): Promise<void> {
    const path = join(await this.workspace(), 'cluster.yaml');
    await writeFile(path, change(await readFile(path, 'utf8')));
  }

  /** Init of the first machine; the others join by themselves, and all are Ready. */
  async up(): Promise<void> {
    await this.#bench.must('mini', 'up', '--name', this.name);
  }

  /** Init of the first machine alone: the others are let in, or not, by the story. */
  async init(): Promise<void> {
    const fingerprint = await this.fingerprint('n1');
    const node = `${await this.address('n1')}:9000`;
    const workspace = await this.workspace();
    await this.#bench.must(
      ...['--workspace', workspace, 'init', '--node', node, '--fingerprint', fingerprint],
    );
  }

  /** Of the machine's own key, as its console shows it. */
  fingerprint(machine: string): Promise<string> {
    return eventually(
      `${machine} shows its fingerprint`,
      60,
      () => this.run(machine, 'cat', '/var/lib/cluster/machine/fingerprint'),
      (text) => text.startsWith('sha256:'),
    );
  }

  async workspace(): Promise<string> {
    return (await this.#bench.cluster(this.name)).paths.workspace;
  }

  /** The workstation's CLI with the workspace of this cluster; the data of its result. */
  async cliJson<T>(...args: readonly string[]): Promise<T> {
    return cliJson<T>(this.#bench, '--workspace', await this.workspace(), ...args);
  }

  async address(machine: string): Promise<string> {
    return (await this.#node(machine)).address;
  }

  /** Of the host, in the network of the machines. */
  async workstation(): Promise<string> {
    return hostAddress((await this.#bench.cluster(this.name)).network);
  }

  /** A program on a machine, whatever becomes of it. */
  try(machine: string, ...argv: readonly string[]): Promise<CliResult> {
    return this.#bench.cli('mini', 'exec', '--name', this.name, machine, '--', ...argv);
  }

  /** What a program that must succeed says on a machine; as fast as it can be had. */
  async run(machine: string, program: string, ...args: readonly string[]): Promise<string> {
    const node = await this.#node(machine);
    return (await node.exec([program, ...args], { signal: this.#bench.signal })).stdout.trim();
  }

  sh(machine: string, script: string): Promise<string> {
    return this.run(machine, 'sh', '-ec', script);
  }

  log(machine: string): Promise<string> {
    return this.run(machine, 'journalctl', '-u', 'bootstrapper', '--no-pager', '-o', 'cat');
  }

  /** As if the plug were pulled, also while `mini up` holds the cluster's lock. */
  async cutPower(machine: string): Promise<void> {
    await (await this.#node(machine)).cutPower(this.#bench.signal);
  }

  async start(machine: string): Promise<void> {
    // Kubernetes' times are whole seconds.
    this.#onSinceMs.set(machine, Math.floor(Date.now() / 1000) * 1000);
    await (await this.#node(machine)).start(this.#bench.signal);
  }

  /** "n1=True n2=True", as a control plane's own kubectl sees it; "n2=stale" where it was said before the machine was on. */
  async readiness(from = 'n1'): Promise<string> {
    const said = await this.run(from, 'kubectl', 'get', 'nodes', '-o', READY);
    const nodes = said.split('\n').map((line) => {
      const [name = '', status, saidAt = ''] = line.split(' ');
      return `${name}=${Date.parse(saidAt) < (this.#onSinceMs.get(name) ?? 0) ? 'stale' : status}`;
    });
    return nodes.toSorted().join(' ');
  }

  async allReady(machines: readonly string[], withinSeconds: number, from = 'n1'): Promise<void> {
    const wanted = machines.map((machine) => `${machine}=True`).join(' ');
    await eventually(
      `${wanted}`,
      withinSeconds,
      () => this.readiness(from),
      (now) => now === wanted,
    );
  }

  /** The machine's identity in the cluster: of its key, which never changes. */
  nodeKey(machine: string): Promise<string> {
    return this.sh(machine, 'sha256sum /var/lib/cluster/machine/key.pem');
  }

  /** How many members the cluster has on record, as etcd says: never two for one machine. */
  async members(from = 'n1'): Promise<number> {
    const got = await this.etcdctl(from, 'get', '--prefix', '--keys-only', '/cluster/nodes/');
    return got.split('\n').filter((line) => line.endsWith('/record')).length;
  }

  /** What etcd's root is told on a machine. */
  etcdctl(machine: string, ...args: readonly string[]): Promise<string> {
    return this.run(machine, ...etcdctlArgv('root'), ...args);
  }

  /** Every decision so far, oldest first. */
  async audit(): Promise<readonly AuditEntry[]> {
    return (await this.cliJson<{ readonly entries: readonly AuditEntry[] }>('audit', 'ls')).entries;
  }

  /** That machines reach each other and the workstation, and nothing else. */
  async expectNoInternet(machines: readonly string[]): Promise<void> {
    for (const machine of machines)
      for (const away of ['192.0.2.1/80', '1.1.1.1/443']) {
        const { code, stderr } = await this.try(machine, 'bash', '-c', `exec 3<>/dev/tcp/${away}`);
        assert.notEqual(code, 0, `${machine} reaches ${away}`);
        assert.match(stderr, /No route to host|unreachable/i);
      }
  }

  async #node(machine: string): Promise<LocalNode> {
    return (await this.#bench.cluster(this.name)).node(machine);
  }

  /** The main process of a unit. */
  pidOf(machine: string, unit: string): Promise<string> {
    return this.run(machine, 'systemctl', 'show', '--property', 'MainPID', '--value', unit);
  }
}

/** One of `cluster audit ls`. */
export interface AuditEntry {
  readonly seq: number;
  readonly method: string;
  readonly subject: string;
  readonly detail: {
    readonly verdict?: string;
    readonly code?: string;
    readonly name?: string;
    readonly by?: string;
  };
}

/** Of `cluster.yaml`, what says who may come in. */
export interface JoinSettings {
  readonly join: { policy: string; inventory: { identity: string; name: string; roles: string[] }[] };
  readonly attestation: { readonly policy: Record<string, unknown> };
}

/** An edit of `cluster.yaml` by its meaning. */
export function editJoinSettings(change: (config: JoinSettings) => void): (yaml: string) => string {
  return (yaml) => {
    const config = parse(yaml) as JoinSettings;
    change(config);
    return stringify(config);
  };
}

/** Every machine that asks to join waits for the approval of an operator. */
export const requireApproval = editJoinSettings(({ join: joining }) => {
  joining.policy = 'approve';
  joining.inventory = [];
});

/** Appends what `cluster.yaml` says about lifetimes, minutes. */
export function withLifetimes(minutes: number): (yaml: string) => string {
  return (yaml) =>
    `${yaml}certificates:\n  nodeMinutes: ${minutes}\n  kubeletMinutes: ${minutes}\n  controlPlaneMinutes: ${minutes}\n  operatorMinutes: ${minutes}\n`;
}

/** One line of `cluster join --output json`. */
export interface JoinLine {
  readonly type: string;
  readonly data?: { readonly stage?: string; readonly nodeName?: string };
}

/** The operator's program on a machine, from its Debian package: what automation uses there. */
export async function installCli(bench: Harness, cluster: string, machine: string): Promise<void> {
  const directory = join(import.meta.dirname, '../../../dist');
  const name = (await readdir(directory)).find((each) => /^cluster_.*\.deb$/.test(each)) ?? '';
  const node = await (await bench.cluster(cluster)).node(machine);
  const script = 'cat > /root/cluster.deb && dpkg --install /root/cluster.deb && rm /root/cluster.deb';
  const input = await readFile(join(directory, name));
  await node.exec(['sh', '-ec', script], { input, signal: bench.signal, timeoutMs: 120_000 });
}

/** The machine's provisioning as `change` makes it, and its agent with it. */
export async function reprovision(
  cluster: StoryCluster,
  machine: string,
  change: (provisioning: Record<string, unknown>) => Record<string, unknown>,
): Promise<void> {
  const path = '/etc/cluster/provisioning.json';
  const found = JSON.parse(await cluster.run(machine, 'cat', path)) as Record<string, unknown>;
  const base64 = Buffer.from(JSON.stringify(change(found))).toString('base64');
  await cluster.sh(machine, `echo ${base64} | base64 -d > ${path} && systemctl restart bootstrapper`);
}

/** A machine that does not know where its cluster is. */
export async function withoutEndpoints(cluster: StoryCluster, machine: string): Promise<void> {
  await reprovision(cluster, machine, ({ joinEndpoints: _, ...rest }) => rest);
}
