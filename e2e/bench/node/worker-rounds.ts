import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import {
  createCluster,
  destroyCluster,
  findCluster,
  type LocalCluster,
  type LocalNode,
} from '../../../internal/localmachines/index.ts';
import { BIN } from '../kubeadm/configuration.ts';
import { joinManually, createManualCluster, type ManualMachine } from '../kubeadm/manual-kubeadm.ts';
import { cpuSecondsOf } from './first-node.ts';
import { BenchEnvironment } from './bench-environment.ts';

const OURS = 'bench-ours';
const THEIRS = 'bench-kubeadm';
const CONTROL_PLANE = ['mini', 'up', '--name', OURS, '--control-planes', '1'];
const READY_MS = 300_000;
const BOOT_MS = 120_000;
/** Waits until the machine has booted, also if some of its units failed. */
const BOOTED = 'systemctl is-system-running --wait > /dev/null || true';

/** How long each stage of a worker with manual kubeadm took, in ms. */
export interface ManualWorkerTimes {
  readonly programsMs: number;
  readonly imagesMs: number;
  /** Time from the start of `kubeadm join` until the API server reports the node as Ready. */
  readonly untilReadyMs: number;
  readonly cpuSeconds: number;
}

/** Durations for machines that become workers at the same time, and the CPU time of each machine. */
export interface WorkerTimes {
  /** Time of the slowest machine from its ticket on disk until it is Ready, in ms. */
  readonly untilReadyMs: number;
  /**
   * Time from the first ticket until all machines are Ready, in ms. It includes the time that the other
   * agents need to get their tickets.
   */
  readonly untilAllReadyMs: number;
  /** Time of the slowest agent from its start, with the start of Node, until its ticket is on disk, in ms. */
  readonly untilTicketMs: number;
  /** CPU time of all processes of one machine from power-on until all machines are Ready, in s. */
  readonly cpuSeconds: number;
}

/**
 * One control plane of our CLI and one of manual kubeadm, each with its own network. Both get workers in
 * rounds.
 */
export class WorkerRounds implements AsyncDisposable {
  readonly #ground: BenchEnvironment;
  readonly #hand: { readonly cluster: LocalCluster; readonly controlPlane: LocalNode };
  #ourWorkers = 0;
  #theirWorkers = 0;

  private constructor(
    ground: BenchEnvironment,
    hand: { readonly cluster: LocalCluster; readonly controlPlane: LocalNode },
  ) {
    this.#ground = ground;
    this.#hand = hand;
  }

  static async open(): Promise<WorkerRounds> {
    const ground = await BenchEnvironment.open();
    const { machines, root, signal } = ground.bench;
    try {
      const cluster = await createCluster(machines, { root, name: THEIRS, signal });
      const hand = await ground.startManualMachine(cluster, 'n1');
      await createManualCluster(hand, { onApiReady: () => Promise.resolve() });
      await ground.cli(CONTROL_PLANE);
      return new WorkerRounds(ground, { cluster, controlPlane: hand.node });
    } catch (error) {
      await ground[Symbol.asyncDispose]();
      throw error;
    }
  }

  async theirs(): Promise<ManualWorkerTimes> {
    const { controlPlane } = this.#hand;
    const hand = await this.#startTheirs();
    const ready = this.#readyTimes(controlPlane, [hand.node.name]).then(lastOf);
    const [{ programsMs, imagesMs, joinedFromMs }, readyMs] = await Promise.all([
      joinManually(hand, controlPlane),
      ready,
    ]);
    const cpuSeconds = await cpuSecondsOf(hand.node);
    return { programsMs, imagesMs, untilReadyMs: readyMs - joinedFromMs, cpuSeconds };
  }

  /**
   * Adds this many workers with manual kubeadm in parallel. Returns the time from the first copied program
   * until all are Ready, in ms.
   */
  async theirsAtOnce(count: number): Promise<number> {
    const { controlPlane } = this.#hand;
    const hands: ManualMachine[] = [];
    while (hands.length < count) hands.push(await this.#startTheirs());
    const { signal } = this;
    await Promise.all(
      hands.map(({ node }) => node.exec(['sh', '-c', BOOTED], { signal, timeoutMs: BOOT_MS })),
    );
    const names = hands.map(({ node }) => node.name);
    const ready = this.#readyTimes(controlPlane, names).then(lastOf);
    const startedMs = Date.now();
    await Promise.all(hands.map((hand) => joinManually(hand, controlPlane)));
    return (await ready) - startedMs;
  }

  #startTheirs(): Promise<ManualMachine> {
    return this.#ground.startManualMachine(this.#hand.cluster, `n${++this.#theirWorkers + 1}`);
  }

  async removeTheirs(): Promise<void> {
    const { machines, root, signal } = this.#ground.bench;
    await destroyCluster(machines, { root, name: THEIRS, signal });
  }

  /**
   * Recreates our cluster on new machines, with no worker, because each worker that has joined slows down the
   * next join.
   */
  async renewOurs(): Promise<void> {
    await this.#ground.cli(['mini', 'down', '--name', OURS]);
    this.#ourWorkers = 0;
    await this.#ground.cli(CONTROL_PLANE);
  }

  /**
   * Adds this many workers at the same time. The machines are booted and approved before their agents start together.
   * Otherwise the result would include the time of the operator, and of the boot of many machines on two processors.
   */
  async ours(count: number): Promise<WorkerTimes> {
    const names = Array.from({ length: count }, (_, index) => `n${this.#ourWorkers + index + 2}`);
    this.#ourWorkers += count;
    const workers = ['--workers', String(this.#ourWorkers)];
    await this.#ground.cli([...CONTROL_PLANE, '--nodes-only', ...workers]);
    const nodes = await Promise.all(names.map((name) => this.find(name)));
    await Promise.all(nodes.map((node) => this.#letIn(node)));
    const ready = this.#readyTimes(await this.find('n1'), names).then(async (times) => {
      const spent = await Promise.all(nodes.map(cpuSecondsOf));
      return { times, cpuSeconds: spent.reduce((sum, each) => sum + each, 0) / count };
    });
    await Promise.all(
      nodes.map((node) => node.exec(['systemctl', 'start', 'bootstrapper'], { signal: this.signal })),
    );
    const { times, cpuSeconds } = await ready;
    const tickets = await Promise.all(nodes.map((node) => this.#ticketOf(node)));
    const took = nodes.map(({ name }, index) => (times.get(name) ?? NaN) - (tickets[index]?.atMs ?? NaN));
    return {
      untilReadyMs: Math.max(...took),
      untilAllReadyMs: lastOf(times) - Math.min(...tickets.map(({ atMs }) => atMs)),
      untilTicketMs: Math.max(...tickets.map(({ tookMs }) => tookMs)),
      cpuSeconds,
    };
  }

  /** Approves a machine that has booted and waits for approval, and stops its agent. */
  async #letIn(node: LocalNode): Promise<void> {
    const script = [
      BOOTED,
      "until journalctl --unit bootstrapper --output cat | grep -q 'waiting for admission'; do sleep 0.3; done",
      'systemctl stop bootstrapper',
      'cat /var/lib/cluster/machine/fingerprint',
    ].join('; ');
    const { signal } = this;
    const { stdout } = await node.exec(['sh', '-ec', script], { signal, timeoutMs: BOOT_MS });
    const { workspace } = (await this.#ours()).paths;
    const approve = ['node', 'approve', stdout.trim(), '--name', node.name];
    await this.#ground.cli(['--workspace', workspace, ...approve]);
  }

  async #ticketOf(node: LocalNode): Promise<{ readonly atMs: number; readonly tookMs: number }> {
    const { mtimeMs } = await stat(join(node.paths.data, 'cluster/credentials/node.crt'));
    return { atMs: mtimeMs, tookMs: mtimeMs - (await agentStartedMs(node, this.signal)) };
  }

  /** Finds a machine of our cluster by name. */
  async find(name: string): Promise<LocalNode> {
    return (await this.#ours()).node(name);
  }

  async #ours(): Promise<LocalCluster> {
    const { machines, root } = this.#ground.bench;
    const cluster = await findCluster(machines, { root, name: OURS });
    if (cluster === undefined) throw new Error(`there is no cluster ${OURS}`);
    return cluster;
  }

  get signal(): AbortSignal {
    return this.#ground.bench.signal;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#ground[Symbol.asyncDispose]();
  }

  /**
   * The time at which the control plane sees each of these nodes as Ready, in ms since the epoch. The nodes
   * need not exist yet. One watch serves all nodes, because one program for each node took a quarter of the
   * CPU time. An API server may end the watch at any time; then a new one begins.
   */
  async #readyTimes(controlPlane: LocalNode, names: readonly string[]): Promise<ReadonlyMap<string, number>> {
    const said = `{.metadata.name} {.status.conditions[?(@.type=="Ready")].status}{"\\n"}`;
    const script = [
      'set -e; said=$(mktemp -u); mkfifo $said',
      `waited=' ${names.join(' ')} '`,
      'while [ "$waited" != " " ]; do',
      `  ${BIN}/kubectl get nodes --watch --output jsonpath='${said}' > $said & listener=$!`,
      '  while read -r name ready; do',
      '    case "$ready$waited" in "True"*" $name "*)',
      '      echo "$name $(date +%s%3N)"',
      '      waited=$(echo "$waited" | sed "s/ $name / /");;',
      '    esac',
      '    [ "$waited" != " " ] || break',
      '  done < $said',
      '  kill $listener || true',
      'done',
      'rm $said',
    ].join('\n');
    const { signal } = this.#ground.bench;
    const env = { KUBECONFIG: '/etc/kubernetes/admin.conf' };
    const { stdout } = await controlPlane.exec(['sh', '-c', script], { env, timeoutMs: READY_MS, signal });
    return new Map(
      stdout
        .trim()
        .split('\n')
        .map((line) => [line.slice(0, line.indexOf(' ')), Number(line.slice(line.indexOf(' ') + 1))]),
    );
  }
}

function lastOf(times: ReadonlyMap<string, number>): number {
  return Math.max(...times.values());
}

/**
 * The start of a machine's agent in ms since the epoch. Local machines share the monotonic clock of the host.
 */
async function agentStartedMs(node: LocalNode, signal: AbortSignal): Promise<number> {
  const property = 'ExecMainStartTimestampMonotonic';
  const { stdout } = await node.exec(
    ['systemctl', 'show', '--property', property, '--value', 'bootstrapper'],
    { signal },
  );
  const sinceBootMs = Number(process.hrtime.bigint()) / 1e6;
  return Date.now() - sinceBootMs + Number(stdout) / 1000;
}
