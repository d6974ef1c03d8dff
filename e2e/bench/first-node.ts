import { spawn } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { env, execPath } from 'node:process';
import { createInterface } from 'node:readline';
import {
  DEFAULT_KUBERNETES_VERSION,
  parseManifest,
  type BundleManifest,
} from '../../internal/bundle/index.ts';
import {
  createCluster,
  destroyCluster,
  ensureAgentLayer,
  ensureRootfs,
  findCluster,
  type LocalNode,
} from '../../internal/machines/index.ts';
import { createBench, type Bench } from '../machines/bench.ts';
import { makeClusterByHand, type HandTimes } from './byhand/by-hand.ts';

/** The program as it is shipped: `npm run build` first. */
const PROGRAM = join(import.meta.dirname, '../../dist/cluster/main.mjs');
const CACHE = join(env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache'), 'cluster');
const OURS = 'bench-ours';
const THEIRS = 'bench-hand';

/** One cluster of one machine, from nothing to a chart whose pod answers. All from the start, in ms. */
export interface OurTimes {
  readonly bootedMs: number;
  readonly apiReadyMs: number;
  readonly answersMs: number;
  /** CPU time of the machine from power-on until its API was ready; of all its processes, in s. */
  readonly cpuSeconds: number;
  /** Every step of the program and how long it took. */
  readonly steps: Readonly<Record<string, number>>;
}

export interface TheirTimes extends HandTimes {
  readonly bootedMs: number;
  readonly cpuSeconds: number;
}

/** The place of all rounds: made once, everything in it goes with it. */
export class FirstNodeRounds implements AsyncDisposable {
  readonly bench: Bench;
  readonly #manifest: BundleManifest;
  readonly #layers: readonly string[];

  private constructor(bench: Bench, manifest: BundleManifest, layers: readonly string[]) {
    this.bench = bench;
    this.#manifest = manifest;
    this.#layers = layers;
  }

  static async open(): Promise<FirstNodeRounds> {
    const bench = await createBench();
    const { machines, signal } = bench;
    const architecture = process.arch === 'arm64' ? 'arm64' : 'amd64';
    const name = `kubernetes-${DEFAULT_KUBERNETES_VERSION}-linux-${architecture}`;
    const manifest = parseManifest(await readFile(join(CACHE, 'bundles', `${name}.json`)));
    const rootfs = await ensureRootfs(machines, {
      folder: join(CACHE, 'rootfs'),
      onProgress: () => undefined,
      signal,
    });
    const layer = await ensureAgentLayer(machines, {
      folder: join(CACHE, 'layers'),
      rootfs,
      packagePath: bench.agent,
      signal,
    });
    return new FirstNodeRounds(bench, manifest, [layer, rootfs]);
  }

  /** `cluster mini up --demo`, the shipped program and the shipped agent. The cluster stays. */
  async ours(): Promise<OurTimes> {
    const finished: Record<string, number> = {};
    const steps: Record<string, number> = {};
    let cpu: Promise<number> | undefined;
    const startMs = Date.now();
    await this.#cli(['mini', 'up', '--demo', '--name', OURS], (record) => {
      if (record.type !== 'step-finished' || record.code === undefined) return;
      if (record.code === 'init-api') cpu = this.node().then(cpuSecondsOf);
      finished[record.code] = Date.parse(record.time) - startMs;
      steps[record.code] = record.durationMs ?? NaN;
    });
    const cpuSeconds = (await cpu) ?? NaN;
    const at = (code: string): number => {
      const ms = finished[code];
      if (ms === undefined) throw new Error(`the program did not say that ${code} was finished`);
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
    await this.#cli(['mini', 'down', '--name', OURS], () => undefined);
  }

  /** The machine of our cluster that is up. */
  async node(): Promise<LocalNode> {
    const { machines, root } = this.bench;
    const cluster = await findCluster(machines, { root, name: OURS });
    if (cluster === undefined) throw new Error(`there is no cluster ${OURS}`);
    return cluster.node('n1');
  }

  /** The same machine, `kubeadm init` by hand; it is gone afterwards. */
  async theirs(): Promise<TheirTimes> {
    const { machines, signal, root, folder } = this.bench;
    const startMs = performance.now();
    const cluster = await createCluster(machines, { root, name: THEIRS, signal });
    try {
      const node = await cluster.addNode({
        name: 'n1',
        layers: this.#layers,
        ownerKeys: [Buffer.alloc(32, 1).toString('base64')],
        seedFolder: join(CACHE, 'blobs'),
      });
      await node.start(signal);
      const bootedMs = performance.now() - startMs;
      const hand = {
        node,
        manifest: this.#manifest,
        blobs: join(CACHE, 'blobs/sha256'),
        folder,
        searchPath: env['PATH'] ?? '',
        signal,
      };
      let cpuSeconds = NaN;
      const times = await makeClusterByHand(hand, {
        onApiReady: async () => void (cpuSeconds = await cpuSecondsOf(node)),
      });
      return { bootedMs, cpuSeconds, ...times };
    } finally {
      await destroyCluster(machines, { root, name: THEIRS, signal });
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.bench[Symbol.asyncDispose]();
  }

  async #cli(args: readonly string[], onRecord: (record: CliRecord) => void): Promise<void> {
    const child = spawn(execPath, [PROGRAM, '--output', 'json', ...args], {
      env: {
        PATH: env['PATH'],
        HOME: homedir(),
        XDG_DATA_HOME: join(this.bench.folder, 'data'),
        XDG_CACHE_HOME: join(CACHE, '..'),
      },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const ended = new Promise<number>((resolve, reject) => {
      child.once('error', reject);
      child.once('close', (code) => resolve(code ?? -1));
    });
    let failure = '';
    for await (const line of createInterface({ input: child.stdout })) {
      const record = JSON.parse(line) as CliRecord;
      if (record.type === 'error') failure = line;
      onRecord(record);
    }
    const code = await ended;
    if (code !== 0) throw new Error(`cluster ${args.join(' ')} ended with ${code}: ${failure}`);
  }
}

/** All that a machine's processes have used so far: of its control group, v1 or v2. */
export async function cpuSecondsOf(node: LocalNode): Promise<number> {
  const v1 = '/sys/fs/cgroup/cpuacct/cpuacct.usage';
  const script = `if [ -e ${v1} ]; then cat ${v1}; else sed -n 's/^usage_usec \\([0-9]*\\)$/\\1000/p' /sys/fs/cgroup/cpu.stat; fi`;
  const { stdout } = await node.exec(['sh', '-c', script], { signal: new AbortController().signal });
  return Number(stdout) / 1e9;
}

/** A line of `--output json`. */
interface CliRecord {
  readonly time: string;
  readonly type: string;
  readonly code?: string;
  readonly durationMs?: number;
}
