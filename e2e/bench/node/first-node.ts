import {
  createCluster,
  destroyCluster,
  findCluster,
  type LocalCluster,
  type LocalNode,
} from '../../../internal/localmachines/index.ts';
import type { Harness } from '../../machines/harness.ts';
import { createManualCluster, type ManualTimes } from '../kubeadm/manual-kubeadm.ts';
import { BenchEnvironment } from './bench-environment.ts';

const OURS = 'bench-ours';
const THEIRS = 'bench-kubeadm';

/** Durations of a cluster of one machine, each from the start of the command, in ms. */
export interface ClusterTimes {
  readonly bootedMs: number;
  readonly apiReadyMs: number;
  readonly answersMs: number;
  /** CPU time of all processes of the machine from power-on until its API was ready, in s. */
  readonly cpuSeconds: number;
  /** The duration of every step of the program, by its code. */
  readonly steps: Readonly<Record<string, number>>;
}

export interface ManualNodeTimes extends ManualTimes {
  readonly bootedMs: number;
  readonly cpuSeconds: number;
}

/** The environment of all rounds, created once and removed as a whole. */
export class FirstNodeRounds implements AsyncDisposable {
  readonly #ground: BenchEnvironment;

  private constructor(ground: BenchEnvironment) {
    this.#ground = ground;
  }

  static async open(): Promise<FirstNodeRounds> {
    return new FirstNodeRounds(await BenchEnvironment.open());
  }

  get bench(): Harness {
    return this.#ground.bench;
  }

  /** Runs `cluster mini up --demo` with the built CLI and agent. The cluster stays. */
  async ours(): Promise<ClusterTimes> {
    const finished: Record<string, number> = {};
    const steps: Record<string, number> = {};
    let cpu: Promise<number> | undefined;
    const startMs = Date.now();
    await this.#ground.cli(['mini', 'up', '--demo', '--name', OURS], (record) => {
      if (record.type !== 'step-finished' || record.code === undefined) return;
      if (record.code === 'init-api') cpu = this.node().then(cpuSecondsOf);
      finished[record.code] = Date.parse(record.time) - startMs;
      steps[record.code] = record.durationMs ?? NaN;
    });
    const cpuSeconds = (await cpu) ?? NaN;
    const at = (code: string): number => {
      const ms = finished[code];
      if (ms === undefined) throw new Error(`the program did not report the end of step ${code}`);
      return ms;
    };
    return {
      bootedMs: at('mini-node'),
      apiReadyMs: at('init-api'),
      answersMs: at('mini-demo'),
      cpuSeconds,
      steps,
    };
  }

  async removeOurs(): Promise<void> {
    await this.#ground.cli(['mini', 'down', '--name', OURS]);
  }

  /** The workspace of our running cluster. */
  async workspace(): Promise<string> {
    return (await this.#cluster()).paths.workspace;
  }

  /** The machine of our running cluster. */
  async node(): Promise<LocalNode> {
    return (await this.#cluster()).node('n1');
  }

  async #cluster(): Promise<LocalCluster> {
    const { machines, root } = this.bench;
    const cluster = await findCluster(machines, { root, name: OURS });
    if (cluster === undefined) throw new Error(`there is no cluster ${OURS}`);
    return cluster;
  }

  /** Boots an equal machine and initializes it manually with kubeadm. The machine is removed afterwards. */
  async theirs(): Promise<ManualNodeTimes> {
    const { machines, signal, root } = this.bench;
    const startMs = performance.now();
    const cluster = await createCluster(machines, { root, name: THEIRS, signal });
    try {
      const hand = await this.#ground.startManualMachine(cluster, 'n1');
      const bootedMs = performance.now() - startMs;
      let cpuSeconds = NaN;
      const times = await createManualCluster(hand, {
        onApiReady: async () => void (cpuSeconds = await cpuSecondsOf(hand.node)),
      });
      return { bootedMs, cpuSeconds, ...times };
    } finally {
      await destroyCluster(machines, { root, name: THEIRS, signal });
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#ground[Symbol.asyncDispose]();
  }
}

/** CPU time that all processes of a machine have used so far, from its control group (v1 or v2). */
export async function cpuSecondsOf(node: LocalNode): Promise<number> {
  const v1 = '/sys/fs/cgroup/cpuacct/cpuacct.usage';
  const script = `if [ -e ${v1} ]; then cat ${v1}; else sed -n 's/^usage_usec \\([0-9]*\\)$/\\1000/p' /sys/fs/cgroup/cpu.stat; fi`;
  const { stdout } = await node.exec(['sh', '-c', script], { signal: new AbortController().signal });
  return Number(stdout) / 1e9;
}
