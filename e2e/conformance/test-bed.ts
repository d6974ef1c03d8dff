import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createCluster, type LocalNode } from '../../internal/localmachines/index.ts';
import { createManualCluster, joinManually } from '../bench/kubeadm/manual-kubeadm.ts';
import { BenchEnvironment } from '../bench/node/bench-environment.ts';
import { StoryCluster } from '../cluster/harness/story-cluster.ts';
import { createHarness, type Harness } from '../machines/harness.ts';

const NAME = 'conformance';
const IMPORT_MS = 300_000;
/** The directory in which the machines see the blobs from this user's cache. */
const SEED = '/var/lib/cluster-seed/blobs/sha256';
/** The path of ctr. Both clusters install the programs of the bundle in this directory. */
const CTR = '/opt/cluster/bin/ctr';

/** Options of the cluster on which the tests run. */
export interface BedOptions {
  readonly kubernetesVersion: string;
  readonly controlPlanes: number;
  readonly workers: number;
}

/** A cluster of local machines that is removed at the end. */
export interface TestBed extends AsyncDisposable {
  /** Path of a kubeconfig of an administrator. */
  readonly kubeconfig: string;
  /** Imports archives of the cache into containerd on every machine. */
  readonly importImages: (archives: readonly string[]) => Promise<void>;
}

/** Creates a cluster with `cluster mini up`. */
export async function createBed(options: BedOptions): Promise<TestBed> {
  const bench = await createHarness();
  const cluster = new StoryCluster(bench, NAME);
  await orDispose(bench, () =>
    bench.must(
      ...['mini', 'up', '--name', NAME, '--kubernetes-version', options.kubernetesVersion],
      ...['--control-planes', String(options.controlPlanes), '--workers', String(options.workers)],
    ),
  );
  const nodes = await orDispose(bench, () => nodesOf(bench, options.controlPlanes + options.workers));
  return {
    kubeconfig: join(await cluster.workspace(), 'kubeconfig'),
    importImages: (archives) => importImages(nodes, archives, bench.signal),
    [Symbol.asyncDispose]: () => bench[Symbol.asyncDispose](),
  };
}

/**
 * Creates a cluster with manual kubeadm on equal machines, to see whether a failure comes from the machines. It has
 * one control plane.
 */
export async function createPlainBed({ workers }: BedOptions): Promise<TestBed> {
  const environment = await BenchEnvironment.open();
  const { bench } = environment;
  return orDispose(environment, async () => {
    const { machines, signal, root } = bench;
    const cluster = await createCluster(machines, { root, name: NAME, signal });
    const first = await environment.startManualMachine(cluster, 'n1');
    await createManualCluster(first, { onApiReady: () => Promise.resolve() });
    const nodes = [first.node];
    for (let number = 2; number <= workers + 1; number++) {
      const machine = await environment.startManualMachine(cluster, `n${number}`);
      await joinManually(machine, first.node);
      nodes.push(machine.node);
    }
    const kubeconfig = join(bench.directory, 'plain.conf');
    const { stdout } = await first.node.exec(['cat', '/etc/kubernetes/admin.conf'], { signal });
    await writeFile(kubeconfig, stdout, { mode: 0o600 });
    return {
      kubeconfig,
      importImages: (archives: readonly string[]) => importImages(nodes, archives, signal),
      [Symbol.asyncDispose]: () => environment[Symbol.asyncDispose](),
    };
  });
}

async function nodesOf(bench: Harness, count: number): Promise<readonly LocalNode[]> {
  const cluster = await bench.cluster(NAME);
  return Promise.all(Array.from({ length: count }, (_, index) => cluster.node(`n${index + 1}`)));
}

/** Pinned like the images of the bundle: the kubelet removes unused images when the disk fills. */
async function importImages(
  nodes: readonly LocalNode[],
  archives: readonly string[],
  signal: AbortSignal,
): Promise<void> {
  const flags = ['--local', '--label', 'io.cri-containerd.pinned=pinned'];
  for (const node of nodes)
    for (const sha256 of archives)
      await node.exec([CTR, '--namespace', 'k8s.io', 'images', 'import', ...flags, `${SEED}/${sha256}`], {
        timeoutMs: IMPORT_MS,
        signal,
      });
}

async function orDispose<T>(resource: AsyncDisposable, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    await resource[Symbol.asyncDispose]();
    throw error;
  }
}
