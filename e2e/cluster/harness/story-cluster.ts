import assert from 'node:assert/strict';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { formatEndpoint } from '../../../internal/endpoint/index.ts';
import { hostAddress, type LocalNode } from '../../../internal/localmachines/index.ts';
import { parse, stringify } from 'yaml';
import type { Harness, CliResult } from '../../machines/harness.ts';
import { etcdctlArgv, eventually } from './node-shell.ts';

/** Lines of "NAME STATUS TIME": the Ready condition of each node, and when its kubelet last reported it. */
export const READY = `jsonpath={range .items[*]}{.metadata.name} {range .status.conditions[?(@.type=="Ready")]}{.status} {.lastHeartbeatTime}{end}{"\\n"}{end}`;

/** Runs a command with `--output json`, and returns the data of its result line. */
export async function cliJson<T>(bench: Harness, ...args: readonly string[]): Promise<T> {
  const lines = (await bench.must(...args, '--output', 'json')).trim().split('\n');
  const last = JSON.parse(lines.at(-1) ?? '{}') as { readonly type: string; readonly data: T };
  assert.equal(last.type, 'result');
  return last.data;
}

/** A local cluster of a story, with access to its machines and to the workstation's CLI. */
export class StoryCluster {
  readonly name: string;
  readonly #bench: Harness;
  /** Start time of each restarted machine. Earlier reports of its kubelet do not count. */
  readonly #onSinceMs = new Map<string, number>();

  constructor(bench: Harness, name: string) {
    this.#bench = bench;
    this.name = name;
  }

  /**
   * Starts machines that wait for an init, and edits the `cluster.yaml` of their cluster. With `emptyStores` they have no components and get them from the workstation or from each other.
   */
  async machines(
    counts: {
      readonly controlPlanes: number;
      readonly workers: number;
      readonly emptyStores?: true;
      readonly ipFamily?: 'dual' | 'ipv6';
    },
    edit: (yaml: string) => string = (yaml) => yaml,
  ): Promise<void> {
    const flags = ['--control-planes', String(counts.controlPlanes), '--workers', String(counts.workers)];
    if (counts.emptyStores === true) flags.push('--empty-store');
    if (counts.ipFamily !== undefined) flags.push('--ip-family', counts.ipFamily);
    await this.#bench.must('mini', 'up', '--nodes-only', '--name', this.name, ...flags);
    await this.edit(edit);
  }

  /** Edits the operator's `cluster.yaml`. The change is active only after `config apply`. */
  async edit(change: (yaml: string) => string): Promise<void> {
    const path = join(await this.workspace(), 'cluster.yaml');
    await writeFile(path, change(await readFile(path, 'utf8')));
  }

  /** Initializes the first machine; the others join automatically. Returns when all are Ready. */
  async up(): Promise<void> {
    await this.#bench.must('mini', 'up', '--name', this.name);
  }

  /** Initializes only the first machine. The story decides whether the others are admitted. */
  async init(): Promise<void> {
    const fingerprint = await this.fingerprint('n1');
    const node = formatEndpoint(await this.address('n1'), 9000);
    const workspace = await this.workspace();
    await this.#bench.must(
      ...['--workspace', workspace, 'init', '--node', node, '--fingerprint', fingerprint],
    );
  }

  /** The fingerprint of the machine's key, as the console shows it. */
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

  /**
   * Runs the CLI on the workstation with the workspace of this cluster, and returns the data of its result.
   */
  async cliJson<T>(...args: readonly string[]): Promise<T> {
    return cliJson<T>(this.#bench, '--workspace', await this.workspace(), ...args);
  }

  async address(machine: string): Promise<string> {
    return (await this.#node(machine)).address;
  }

  /** The host's address in the network of the machines. */
  async workstation(): Promise<string> {
    return hostAddress((await this.#bench.cluster(this.name)).network);
  }

  /** Runs a program on a machine. Does not throw if the program fails. */
  try(machine: string, ...argv: readonly string[]): Promise<CliResult> {
    return this.#bench.cli('mini', 'exec', '--name', this.name, machine, '--', ...argv);
  }

  /** Runs a program on a machine without the CLI, and returns its output. Throws if the program fails. */
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

  /** Cuts the power of a machine. Works also while `mini up` holds the lock of the cluster. */
  async cutPower(machine: string): Promise<void> {
    await (await this.#node(machine)).cutPower(this.#bench.signal);
  }

  async isRunning(machine: string): Promise<boolean> {
    return (await this.#node(machine)).isRunning(this.#bench.signal);
  }

  async start(machine: string): Promise<void> {
    // Kubernetes stores times in whole seconds.
    this.#onSinceMs.set(machine, Math.floor(Date.now() / 1000) * 1000);
    await (await this.#node(machine)).start(this.#bench.signal);
  }

  /**
   * The Ready status of each node, "n1=True n2=True", from a control plane's own kubectl. "n2=stale" if the
   * report is older than the last start of the machine.
   */
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

  /** A hash of the machine's key. It stays the same while the machine keeps its identity. */
  nodeKey(machine: string): Promise<string> {
    return this.sh(machine, 'sha256sum /var/lib/cluster/machine/key.pem');
  }

  /** The number of node records in etcd. A machine must never have two. */
  async members(from = 'n1'): Promise<number> {
    const got = await this.etcdctl(from, 'get', '--prefix', '--keys-only', '/cluster/nodes/');
    return got.split('\n').filter((line) => line.endsWith('/record')).length;
  }

  /** Runs etcdctl with the credentials of root on a machine. */
  etcdctl(machine: string, ...args: readonly string[]): Promise<string> {
    return this.run(machine, ...etcdctlArgv('root'), ...args);
  }

  /** How many voters and learners etcd has. */
  async etcdMembers(): Promise<{ readonly voters: number; readonly learners: number }> {
    const said = await this.etcdctl('n1', 'member', 'list', '--write-out', 'json');
    const { members } = JSON.parse(said) as { members: readonly { readonly isLearner?: boolean }[] };
    const learners = members.filter(({ isLearner }) => isLearner === true).length;
    return { voters: members.length - learners, learners };
  }

  /** All entries of both audit logs, oldest first. */
  async audit(): Promise<readonly AuditEntry[]> {
    return (await this.cliJson<{ readonly entries: readonly AuditEntry[] }>('audit', 'ls')).entries;
  }

  /** Asserts that the machines cannot connect to an address on the internet. */
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

/** One entry of `cluster audit ls`. */
export interface AuditEntry {
  /** Set for entries about refused and waiting machines, which are in a log of their own. */
  readonly log?: 'requests';
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

/** The settings in `cluster.yaml` that decide which machines may join. */
export interface JoinSettings {
  readonly join: { policy: string; inventory: { identity: string; name: string; roles: string[] }[] };
  readonly attestation: { readonly policy: Record<string, unknown> };
}

/** Returns an edit of `cluster.yaml` that changes its join settings. */
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

/** Returns an edit of `cluster.yaml` that sets all certificate lifetimes, in minutes. */
export function withLifetimes(minutes: number): (yaml: string) => string {
  return (yaml) =>
    `${yaml}certificates:\n  nodeMinutes: ${minutes}\n  kubeletMinutes: ${minutes}\n  controlPlaneMinutes: ${minutes}\n  operatorMinutes: ${minutes}\n`;
}

/** One line of `cluster join --output json`. */
export interface JoinLine {
  readonly type: string;
  readonly data?: { readonly stage?: string; readonly nodeName?: string };
}

/** Installs the CLI from its Debian package on a machine, for automation that runs there. */
export async function installCli(bench: Harness, cluster: string, machine: string): Promise<void> {
  const directory = join(import.meta.dirname, '../../../dist');
  const name = (await readdir(directory)).find((each) => /^cluster_.*\.deb$/.test(each)) ?? '';
  const node = await (await bench.cluster(cluster)).node(machine);
  const script = 'cat > /root/cluster.deb && dpkg --install /root/cluster.deb && rm /root/cluster.deb';
  const input = await readFile(join(directory, name));
  await node.exec(['sh', '-ec', script], { input, signal: bench.signal, timeoutMs: 120_000 });
}

/** Writes a file on a machine. */
export async function place(
  cluster: StoryCluster,
  machine: string,
  path: string,
  text: string,
): Promise<void> {
  const base64 = Buffer.from(text).toString('base64');
  await cluster.sh(machine, `mkdir -p "$(dirname ${path})" && echo ${base64} | base64 -d > ${path}`);
}

/** Changes the machine's provisioning file and restarts its agent. */
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

/** Removes the join endpoints from the machine's provisioning, so that it cannot find its cluster. */
export async function withoutEndpoints(cluster: StoryCluster, machine: string): Promise<void> {
  await reprovision(cluster, machine, ({ joinEndpoints: _, ...rest }) => rest);
}
