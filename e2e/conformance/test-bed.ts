import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { parse, stringify } from 'yaml';
import { createCluster, type LocalNode } from '../../internal/localmachines/index.ts';
import { createManualControlPlanes, type ManualMachine } from '../bench/kubeadm/manual-kubeadm.ts';
import { BenchEnvironment } from '../bench/node/bench-environment.ts';
import { Registry } from '../cluster/harness/registry.ts';
import { StoryCluster } from '../cluster/harness/story-cluster.ts';
import { createHarness, type Harness } from '../machines/harness.ts';

const NAME = 'conformance';
const IMPORT_MS = 300_000;
/** The directory in which the machines see the blobs from this user's cache. */
const SEED = '/var/lib/cluster-seed/blobs/sha256';
/** The path of ctr. Both clusters install the programs of the bundle in this directory. */
const CTR = '/opt/cluster/bin/ctr';
/** The registry of the test images. */
const UPSTREAM = 'registry.k8s.io';
const TEST_IMAGES = `${UPSTREAM}/e2e-test-images/`;

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

/**
 * Creates a cluster with `cluster mini up`. Two specs pull their images although the machines have them, so a registry on this machine is the
 * mirror of the registry of the test images.
 */
export async function createBed(options: BedOptions): Promise<TestBed> {
  const bench = await createHarness();
  const cluster = new StoryCluster(bench, NAME);
  return orDispose(bench, async () => {
    await bench.must(
      ...['mini', 'up', '--nodes-only', '--name', NAME, '--kubernetes-version', options.kubernetesVersion],
      ...['--control-planes', String(options.controlPlanes), '--workers', String(options.workers)],
    );
    const registry = await Registry.start(bench.directory, await cluster.workstation());
    const dispose = async (): Promise<void> => {
      await registry[Symbol.asyncDispose]();
      await bench[Symbol.asyncDispose]();
    };
    const mirror = { name: UPSTREAM, fallback: false, mirrors: [{ url: `http://${registry.address}` }] };
    await cluster.edit((yaml) => stringify({ ...(parse(yaml) as object), registries: [mirror] }));
    await cluster.up();
    const nodes = await nodesOf(bench, options.controlPlanes + options.workers);
    return {
      kubeconfig: join(await cluster.workspace(), 'kubeconfig'),
      importImages: async (archives) => {
        await importImages(nodes, archives, bench.signal);
        await pushImages(nodes[0], registry, bench.signal);
      },
      [Symbol.asyncDispose]: dispose,
    };
  });
}

/**
 * Creates a cluster with manual kubeadm on equal machines and with as many control planes, to see whether a failure
 * comes from the machines.
 */
export async function createPlainBed({ controlPlanes, workers }: BedOptions): Promise<TestBed> {
  const environment = await BenchEnvironment.open();
  const { bench } = environment;
  return orDispose(environment, async () => {
    const { machines, signal, root } = bench;
    const cluster = await createCluster(machines, { root, name: NAME, signal });
    const started: ManualMachine[] = [];
    for (let number = 1; number <= controlPlanes + workers; number++)
      started.push(await environment.startManualMachine(cluster, `n${number}`));
    const kubeconfig = await createManualControlPlanes(...sharingControlPlane(started, controlPlanes));
    return {
      kubeconfig,
      importImages: (archives: readonly string[]) =>
        importImages(
          started.map(({ node }) => node),
          archives,
          signal,
        ),
      [Symbol.asyncDispose]: () => environment[Symbol.asyncDispose](),
    };
  });
}

/** The first machine and the others; the first `controlPlanes` of all share one control plane. */
function sharingControlPlane(
  machines: readonly ManualMachine[],
  controlPlanes: number,
): [first: ManualMachine, others: readonly ManualMachine[]] {
  const [first, ...others] = machines;
  if (first === undefined) throw new Error('a cluster needs a machine');
  const shared = {
    endpoint: `${first.node.address}:6443`,
    certificateKey: randomBytes(32).toString('hex'),
    ...{ apiServerArguments: {}, apiServerMounts: [] },
  };
  return [
    { ...first, shared },
    others.map((each, index) => (index + 1 < controlPlanes ? { ...each, shared } : each)),
  ];
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

/** Pushes the test images of one machine to the registry that is their mirror. */
async function pushImages(
  node: LocalNode | undefined,
  { address }: Registry,
  signal: AbortSignal,
): Promise<void> {
  if (node === undefined) throw new Error('a cluster needs a machine');
  const ctr = (...args: readonly string[]) =>
    node.exec([CTR, '--namespace', 'k8s.io', 'images', ...args], { timeoutMs: IMPORT_MS, signal });
  const { stdout } = await ctr('ls', '--quiet');
  const references = stdout.split('\n').filter((line) => line.startsWith(TEST_IMAGES) && !line.includes('@'));
  for (const reference of references)
    await ctr('push', '--plain-http', reference.replace(UPSTREAM, address), reference);
}

async function orDispose<T>(resource: AsyncDisposable, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    await resource[Symbol.asyncDispose]();
    throw error;
  }
}
