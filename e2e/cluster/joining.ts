import assert from 'node:assert/strict';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { request } from 'node:https';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { connect as connectTls } from 'node:tls';
import type { LocalNode } from '../../internal/machines/index.ts';
import type { Bench, CliResult } from '../machines/bench.ts';
import { eventually } from './node-shell.ts';

const READY =
  'jsonpath={range .items[*]}{.metadata.name}={.status.conditions[?(@.type=="Ready")].status} {end}';

/** What `--output json` ends with. */
export async function answerOf<T>(bench: Bench, ...args: readonly string[]): Promise<T> {
  const lines = (await bench.must(...args, '--output', 'json')).trim().split('\n');
  const last = JSON.parse(lines.at(-1) ?? '{}') as { readonly type: string; readonly data: T };
  assert.equal(last.type, 'result');
  return last.data;
}

/** A local cluster of a story, seen from its machines and from the workstation. */
export class JoiningCluster {
  readonly name: string;
  readonly #bench: Bench;

  constructor(bench: Bench, name: string) {
    this.#bench = bench;
    this.name = name;
  }

  /** Machines that are switched on and wait; their cluster's `cluster.yaml` as `edit` makes it. */
  async machines(
    counts: { readonly controlPlanes: number; readonly workers: number },
    edit: (yaml: string) => string = (yaml) => yaml,
  ): Promise<void> {
    const flags = ['--control-planes', String(counts.controlPlanes), '--workers', String(counts.workers)];
    await this.#bench.must('mini', 'up', '--nodes-only', '--name', this.name, ...flags);
    const path = join(await this.workspace(), 'cluster.yaml');
    await writeFile(path, edit(await readFile(path, 'utf8')));
  }

  /** Init of the first machine; the others join by themselves, and all are Ready. */
  async up(): Promise<void> {
    await this.#bench.must('mini', 'up', '--name', this.name);
  }

  /** Init of the first machine alone: the others are let in, or not, by the story. */
  async init(): Promise<void> {
    const fingerprint = await eventually(
      'the first machine shows its fingerprint',
      60,
      () => this.run('n1', 'cat', '/var/lib/cluster/machine/fingerprint'),
      (text) => text.startsWith('sha256:'),
    );
    const node = `${await this.address('n1')}:9000`;
    const workspace = await this.workspace();
    await this.#bench.must(
      ...['--workspace', workspace, 'init', '--node', node, '--fingerprint', fingerprint],
    );
  }

  async workspace(): Promise<string> {
    return (await this.#bench.cluster(this.name)).paths.workspace;
  }

  /** The workstation's CLI with the workspace of this cluster; the data of its result. */
  async ask<T>(...args: readonly string[]): Promise<T> {
    return answerOf<T>(this.#bench, '--workspace', await this.workspace(), ...args);
  }

  async address(machine: string): Promise<string> {
    return (await this.#node(machine)).address;
  }

  /** A program on a machine, whatever becomes of it. */
  try(machine: string, ...argv: readonly string[]): Promise<CliResult> {
    return this.#bench.cli('mini', 'exec', '--name', this.name, machine, '--', ...argv);
  }

  /** What a program that must succeed says on a machine. */
  async run(machine: string, ...argv: readonly string[]): Promise<string> {
    const { code, stdout, stderr } = await this.try(machine, ...argv);
    assert.equal(code, 0, `${argv.join(' ')} on ${machine}: ${stderr}`);
    return stdout.trim();
  }

  sh(machine: string, script: string): Promise<string> {
    return this.run(machine, 'sh', '-ec', script);
  }

  log(machine: string): Promise<string> {
    return this.run(machine, 'journalctl', '-u', 'bootstrapper', '--no-pager', '-o', 'cat');
  }

  /** As if the plug were pulled, also while `mini up` holds the cluster's lock. */
  async cutPower(machine: string): Promise<void> {
    await (await this.#node(machine)).powerCut(this.#bench.signal);
  }

  async start(machine: string): Promise<void> {
    await (await this.#node(machine)).start(this.#bench.signal);
  }

  /** "n1=True n2=True", as a control plane's own kubectl sees it. */
  async readiness(from = 'n1'): Promise<string> {
    const said = await this.run(from, 'kubectl', 'get', 'nodes', '-o', READY);
    return said.split(' ').toSorted().join(' ');
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
    const user = '/var/lib/cluster/consensus/users/root';
    const got = await this.sh(
      from,
      `/opt/cluster/bin/etcdctl --endpoints https://127.0.0.1:2379 --cacert ${user}/ca.crt --cert ${user}/client.crt --key ${user}/client.key get --prefix --keys-only /cluster/nodes/`,
    );
    return got.split('\n').filter((line) => line.endsWith('/record')).length;
  }

  async #node(machine: string): Promise<LocalNode> {
    return (await this.#bench.cluster(this.name)).node(machine);
  }

  /** The main process of a unit. */
  pidOf(machine: string, unit: string): Promise<string> {
    return this.run(machine, 'systemctl', 'show', '--property', 'MainPID', '--value', unit);
  }
}

/** Appends what `cluster.yaml` says about lifetimes, minutes. */
export function withLifetimes(minutes: number): (yaml: string) => string {
  return (yaml) =>
    `${yaml}certificates:\n  nodeMinutes: ${minutes}\n  kubeletMinutes: ${minutes}\n  controlPlaneMinutes: ${minutes}\n`;
}

/** When the certificate that a TLS server shows runs out, ms. */
export function servedUntil(host: string, port: number): Promise<number> {
  return new Promise((resolve, reject) => {
    const socket = connectTls({ host, port, rejectUnauthorized: false, timeout: 5000 }, () => {
      resolve(Date.parse(socket.getPeerX509Certificate()?.validTo ?? ''));
      socket.destroy();
    });
    socket.once('timeout', () => socket.destroy(new Error(`${host}:${port} says nothing`)));
    socket.once('error', reject);
  });
}

/** Asks an API server over and over; the longest time that it did not answer. */
export class ApiWatch implements AsyncDisposable {
  readonly #over = new AbortController();
  readonly #work: Promise<void>;
  #lastMs = Date.now();
  #longestMs = 0;

  constructor(host: string) {
    this.#work = this.#watch(host);
  }

  get longestPauseMs(): number {
    return Math.max(this.#longestMs, Date.now() - this.#lastMs);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#over.abort();
    await this.#work;
  }

  async #watch(host: string): Promise<void> {
    while (!this.#over.signal.aborted) {
      if (await isReady(host)) {
        this.#longestMs = Math.max(this.#longestMs, Date.now() - this.#lastMs);
        this.#lastMs = Date.now();
      }
      await delay(250, undefined, { signal: this.#over.signal }).catch(() => undefined);
    }
  }
}

function isReady(host: string): Promise<boolean> {
  return new Promise((resolve) => {
    const options = { host, port: 6443, path: '/readyz', rejectUnauthorized: false, agent: false };
    const ask = request({ ...options, timeout: 2000 }, (answer) => {
      answer.resume();
      answer.on('end', () => resolve(answer.statusCode === 200));
      answer.on('error', () => resolve(false));
    });
    ask.once('timeout', () => ask.destroy(new Error('timeout')));
    ask.once('error', () => resolve(false));
    ask.end();
  });
}

/** One line of `cluster join --output json`. */
export interface JoinLine {
  readonly type: string;
  readonly data?: { readonly stage?: string; readonly nodeName?: string };
}

/** The operator's program on a machine, from its Debian package: what automation uses there. */
export async function installCli(bench: Bench, cluster: string, machine: string): Promise<void> {
  const folder = join(import.meta.dirname, '../../dist');
  const name = (await readdir(folder)).find((each) => /^cluster_.*\.deb$/.test(each)) ?? '';
  const node = await (await bench.cluster(cluster)).node(machine);
  const script = 'cat > /root/cluster.deb && dpkg --install /root/cluster.deb && rm /root/cluster.deb';
  const input = await readFile(join(folder, name));
  await node.exec(['sh', '-ec', script], { input, signal: bench.signal, timeoutMs: 120_000 });
}

/** The machine's provisioning as `change` makes it, and its agent with it. */
export async function reprovision(
  cluster: JoiningCluster,
  machine: string,
  change: (provisioning: Record<string, unknown>) => Record<string, unknown>,
): Promise<void> {
  const path = '/etc/cluster/provisioning.json';
  const found = JSON.parse(await cluster.run(machine, 'cat', path)) as Record<string, unknown>;
  const base64 = Buffer.from(JSON.stringify(change(found))).toString('base64');
  await cluster.sh(machine, `echo ${base64} | base64 -d > ${path} && systemctl restart bootstrapper`);
}

/** A machine that does not know where its cluster is. */
export async function withoutEndpoints(cluster: JoiningCluster, machine: string): Promise<void> {
  await reprovision(cluster, machine, ({ joinEndpoints: _, ...rest }) => rest);
}
