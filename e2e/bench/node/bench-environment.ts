import { spawn } from 'node:child_process';
import { readFile, statfs, writeFile } from 'node:fs/promises';
import { homedir, tmpdir } from 'node:os';
import { join } from 'node:path';
import { env, execPath } from 'node:process';
import { createInterface } from 'node:readline';
import {
  DEFAULT_KUBERNETES_VERSION,
  parseManifest,
  type BundleManifest,
} from '../../../internal/bundle/index.ts';
import { ensureAgentLayer, ensureRootfs, type LocalCluster } from '../../../internal/localmachines/index.ts';
import { createHarness, type Harness } from '../../machines/harness.ts';
import type { ManualMachine } from '../kubeadm/manual-kubeadm.ts';

/** The built program; run `npm run build` first. */
const PROGRAM = join(import.meta.dirname, '../../../dist/cluster/main.mjs');
const CACHE = join(env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache'), 'cluster');

/**
 * The kernel's default is enough for one machine only. The bench raises this limit of the host and restores
 * it at the end.
 */
const INOTIFY_INSTANCES = '/proc/sys/fs/inotify/max_user_instances';
const INSTANCES_FOR_ALL = 2048;
/** With less than 15 % of its disk free, a kubelet with the defaults of kubeadm reports disk pressure and gets no pods. */
const MIN_FREE = 0.16;

/**
 * The environment that all rounds share: bundle, root file system and agent package. Disposing it removes all
 * of it.
 */
export class BenchEnvironment implements AsyncDisposable {
  readonly bench: Harness;
  readonly manifest: BundleManifest;
  readonly #layers: readonly string[];
  readonly #hostInstances: string;

  private constructor(
    bench: Harness,
    made: {
      readonly manifest: BundleManifest;
      readonly layers: readonly string[];
      readonly hostInstances: string;
    },
  ) {
    this.bench = bench;
    this.manifest = made.manifest;
    this.#layers = made.layers;
    this.#hostInstances = made.hostInstances;
  }

  static async open(): Promise<BenchEnvironment> {
    const { bavail, blocks } = await statfs(tmpdir());
    if (bavail / blocks < MIN_FREE)
      throw new Error(
        `only ${Math.floor((100 * bavail) / blocks)} % of the disk with ${tmpdir()} are free, ${MIN_FREE * 100} % are needed: kubelets of manual kubeadm would start no pods`,
      );
    const bench = await createHarness();
    const { machines, signal } = bench;
    const architecture = process.arch === 'arm64' ? 'arm64' : 'amd64';
    const name = `kubernetes-${DEFAULT_KUBERNETES_VERSION}-linux-${architecture}`;
    const manifest = parseManifest(await readFile(join(CACHE, 'bundles', `${name}.json`)));
    const rootfs = await ensureRootfs(machines, {
      directory: join(CACHE, 'rootfs'),
      packagePath: bench.agent,
      onProgress: () => undefined,
      signal,
    });
    const layer = await ensureAgentLayer(machines, {
      directory: join(CACHE, 'layers'),
      rootfs,
      packagePath: bench.agent,
      onProgress: () => undefined,
      signal,
    });
    const hostInstances = await readFile(INOTIFY_INSTANCES, 'utf8');
    if (Number(hostInstances) < INSTANCES_FOR_ALL)
      await writeFile(INOTIFY_INSTANCES, String(INSTANCES_FOR_ALL));
    return new BenchEnvironment(bench, { manifest, layers: [layer, rootfs], hostInstances });
  }

  /** Starts a machine for a cluster with manual kubeadm. Its agent accepts no owner, so it does not interfere. */
  async startManualMachine(cluster: LocalCluster, name: string): Promise<ManualMachine> {
    const { directory, signal } = this.bench;
    const node = await cluster.addNode({
      name,
      layers: this.#layers,
      ownerKeys: [Buffer.alloc(32, 1).toString('base64')],
      seedDirectory: join(CACHE, 'blobs'),
    });
    await node.start(signal);
    const blobs = join(CACHE, 'blobs/sha256');
    return { node, manifest: this.manifest, blobs, directory, searchPath: env['PATH'] ?? '', signal };
  }

  /** The path of a component of the bundle on this machine. */
  blob(name: string): string {
    const found = this.manifest.components.find((component) => component.name === name);
    if (found === undefined) throw new Error(`the bundle has no ${name}`);
    return join(CACHE, 'blobs/sha256', found.sha256);
  }

  /** Runs the built CLI to its end. Throws if the exit code is not 0. */
  async cli(args: readonly string[], onRecord: (record: CliRecord) => void = () => undefined): Promise<void> {
    const child = spawn(execPath, [PROGRAM, '--output', 'json', '--events', 'stdout', ...args], {
      env: {
        PATH: env['PATH'],
        HOME: homedir(),
        XDG_DATA_HOME: join(this.bench.directory, 'data'),
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

  async [Symbol.asyncDispose](): Promise<void> {
    await this.bench[Symbol.asyncDispose]();
    await writeFile(INOTIFY_INSTANCES, this.#hostInstances);
  }
}

/** A line of `--output json`. */
export interface CliRecord {
  readonly time: string;
  readonly type: string;
  readonly code?: string;
  readonly durationMs?: number;
}
