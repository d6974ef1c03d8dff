import { readdir, readFile, readlink, stat } from 'node:fs/promises';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { kill } from 'node:process';
import { setTimeout as delay } from 'node:timers/promises';
import type { PhaseName } from '../../../initproto/phases.ts';
import { linkName, type LocalNode } from '../../../internal/localmachines/index.ts';
import type { Harness } from '../../machines/harness.ts';
import { eventually, machineWithoutCluster, NodeShell } from '../harness/node-shell.ts';

const LOOK_MS = 2;
/** Time limit for the agent to run again, including the boot of a machine whose power was cut. */
const BACK_MS = 120_000;
/** The systemd units of resident programs. */
const PROGRAMS = {
  agent: { unit: 'bootstrapper.service', script: 'bootstrapper.mjs' },
  joinservice: { unit: 'cluster-joinservice.service', script: 'joinservice.mjs' },
  signer: { unit: 'cluster-signer.service', script: 'signer.mjs' },
} as const;
type Program = keyof typeof PROGRAMS;

/** An event that the agent stored on its disk. */
export interface StoredEvent {
  readonly sequence: number;
  readonly event: {
    readonly kind: 'started' | 'finished' | 'progress' | 'failed';
    readonly phase: PhaseName;
    readonly already?: boolean;
    readonly code?: string;
    readonly message?: string;
  };
}

/** A machine that waits for its owner, observed from the host: its disk, its processes and its power. */
export class WatchedMachine {
  readonly name: string;
  readonly address: string;
  readonly fingerprint: string;
  readonly workspace: string;
  readonly node: NodeShell;
  readonly #bench: Harness;
  readonly #machine: LocalNode;
  /** Part of the control group of each process of the machine. */
  readonly scope: string;

  private constructor(
    bench: Harness,
    name: string,
    made: Awaited<ReturnType<typeof machineWithoutCluster>>,
    cluster: { readonly machine: LocalNode; readonly number: number },
  ) {
    this.#bench = bench;
    this.name = name;
    this.address = made.address;
    this.fingerprint = made.fingerprint;
    this.workspace = made.workspace;
    this.node = made.node;
    this.#machine = cluster.machine;
    this.scope = `/${linkName(cluster.number)}-${cluster.machine.name}.scope/`;
  }

  /** A machine that is about to join an existing cluster. */
  static async joining(bench: Harness, name: string, machine: string): Promise<WatchedMachine> {
    const cluster = await bench.cluster(name);
    const found = await cluster.node(machine);
    const node = new NodeShell(bench, name, machine);
    const fingerprint = await eventually(
      'the machine shows its fingerprint',
      60,
      () => node.run('cat', '/var/lib/cluster/machine/fingerprint'),
      (text) => text.startsWith('sha256:'),
    );
    const made = { address: found.address, fingerprint, workspace: cluster.paths.workspace, node };
    return new WatchedMachine(bench, name, made, { machine: found, number: cluster.network.number });
  }

  static async create(bench: Harness, name: string, ...flags: readonly string[]): Promise<WatchedMachine> {
    const made = await machineWithoutCluster(bench, name, ...flags);
    const cluster = await bench.cluster(name);
    const { number } = cluster.network;
    return new WatchedMachine(bench, name, made, { machine: await cluster.node('n1'), number });
  }

  /** The arguments of `cluster init` for this machine. */
  init(endpoint = this.address): readonly string[] {
    return ['--workspace', this.workspace, 'init', '--node', endpoint, '--fingerprint', this.fingerprint];
  }

  /** The path of a file in the machine's state directory. */
  state(path: string): string {
    return join(this.#machine.paths.data, 'cluster', path);
  }

  /** Runs a shell script in the machine, and returns its output. */
  async sh(script: string): Promise<string> {
    const { stdout } = await this.#machine.exec(['sh', '-ec', script], { signal: this.#bench.signal });
    return stdout.trim();
  }

  /** "n1" */
  get machineName(): string {
    return this.#machine.name;
  }

  async events(): Promise<readonly StoredEvent[]> {
    const text = await readFile(this.state('init/events.jsonl'), 'utf8').catch(() => '');
    return text
      .split('\n')
      .slice(0, -1)
      .map((line) => JSON.parse(line) as StoredEvent);
  }

  async clusterId(): Promise<string | undefined> {
    const text = await readFile(this.state('enrolment/lock.json'), 'utf8').catch(() => undefined);
    return text === undefined ? undefined : (JSON.parse(text) as { clusterId: string }).clusterId;
  }

  /** Calls back when the start of a phase is on the machine's disk, until it is told to stop. */
  async eachStart(
    onStart: (started: StoredEvent) => Promise<'go on' | 'stop'>,
    isOver: () => boolean = () => false,
  ): Promise<void> {
    const path = this.state('init/events.jsonl');
    for (let from = (await stat(path).catch(() => ({ size: 0 }))).size; ;) {
      const { text, size } = await tail(path, from);
      from = size;
      for (const line of text) {
        const event = JSON.parse(line) as StoredEvent;
        if (event.event.kind === 'started' && (await onStart(event)) === 'stop') return;
      }
      if (text.length > 0) continue;
      if (isOver()) return;
      await delay(LOOK_MS);
    }
  }

  /** The PID of a resident program on the host; undefined if it does not run. */
  async pidOf(program: Program): Promise<number | undefined> {
    const { unit, script } = PROGRAMS[program];
    for (const pid of (await readdir('/proc')).filter((name) => /^\d+$/.test(name))) {
      const cgroup = await readFile(`/proc/${pid}/cgroup`, 'utf8').catch(() => '');
      if (!cgroup.includes(this.scope) || !cgroup.includes(unit)) continue;
      const command = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '');
      if (!command.includes(script) || !(await leadsItsGroup(pid))) continue;
      if ((await readlink(`/proc/${pid}/exe`).catch(() => '')) !== '') return Number(pid);
    }
    return undefined;
  }

  async signalAgent(signal: 'SIGKILL' | 'SIGSTOP' | 'SIGCONT', pid?: number): Promise<number | undefined> {
    const target = pid ?? (await this.pidOf('agent'));
    if (target !== undefined) kill(target, signal);
    return target;
  }

  /** Sends a signal to the etcd of the machine, if it runs. */
  async signalEtcd(signal: 'STOP' | 'CONT'): Promise<void> {
    for (const unit of ['cluster-etcd-state.service', 'cluster-etcd-kubernetes.service'])
      await this.sh(
        `if systemctl is-active --quiet ${unit}; then systemctl kill --signal ${signal} ${unit}; fi`,
      );
  }

  /** Waits for an agent process other than the killed one. */
  agentAfter(killed: number | undefined): Promise<number> {
    return this.#after('agent', killed);
  }

  /**
   * Kills a program with SIGKILL, and returns the PID that systemd starts in its place; undefined if the
   * program did not run.
   */
  async kill(program: Program): Promise<number | undefined> {
    const pid = await this.pidOf(program);
    if (pid === undefined) return undefined;
    kill(pid, 'SIGKILL');
    return this.#after(program, pid);
  }

  async #after(program: Program, killed: number | undefined): Promise<number> {
    for (const deadline = Date.now() + BACK_MS; Date.now() < deadline;) {
      const pid = await this.pidOf(program);
      if (pid !== undefined && pid !== killed) return pid;
      await delay(50);
    }
    throw new Error(`the ${program} was not started again within ${BACK_MS / 1000} s`);
  }
}

/**
 * Whether the process leads its process group, as the main process of a unit does (systemd.exec(5)). A forked
 * child that has not called exec yet has the same command line, but is no leader.
 */
async function leadsItsGroup(pid: string): Promise<boolean> {
  const text = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '');
  const [, , group] = text.slice(text.lastIndexOf(')') + 2).split(' ');
  return group === pid;
}

/** Reads the complete lines of a file from an offset on. Returns them with the offset after them. */
async function tail(path: string, from: number): Promise<{ text: readonly string[]; size: number }> {
  let file;
  try {
    file = await open(path, 'r');
  } catch {
    return { text: [], size: from };
  }
  try {
    const { size } = await file.stat();
    // The file became shorter, because the agent has removed an incomplete last line.
    if (size < from) return { text: [], size };
    const { buffer, bytesRead } = await file.read(Buffer.alloc(size - from), 0, size - from, from);
    const end = buffer.subarray(0, bytesRead).lastIndexOf(0x0a) + 1;
    const text = buffer.subarray(0, end).toString('utf8').split('\n').slice(0, -1);
    return { text, size: from + end };
  } finally {
    await file.close();
  }
}
