import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { ExecaRunner } from '../../../internal/exec/index.ts';
import { createCluster, type LocalNode } from '../../../internal/localmachines/index.ts';
import type { SharedControlPlane } from '../kubeadm/configuration.ts';
import { createManualControlPlanes, type ManualMachine } from '../kubeadm/manual-kubeadm.ts';
import { BenchEnvironment } from '../node/bench-environment.ts';
import { ApiClient } from './api-client.ts';
import type { Target } from './measurements.ts';

const OURS = 'bench-ours';
const THEIRS = 'bench-kubeadm';
const CONTROL_PLANES = ['n1', 'n2', 'n3'] as const;
/** Name of the worker's node in both clusters. */
export const WORKER = 'n4';
const MANIFEST = '/etc/kubernetes/manifests/kube-apiserver.yaml';
/**
 * Directories that our API servers use for audit and encryption. The API servers of manual kubeadm get copies, so
 * that both do the same work.
 */
const SHARED_DIRECTORIES = ['/etc/kubernetes/audit', '/etc/kubernetes/encryption'] as const;
const AUDIT_LOG_DIRECTORY = '/var/log/kubernetes';

/** One of the two clusters, with its machines and a kubeconfig of an administrator. */
export interface MeasuredCluster extends Target {
  readonly kubeconfig: string;
  readonly controlPlanes: readonly [LocalNode, LocalNode, LocalNode];
  readonly worker: LocalNode;
}

/**
 * Two clusters with three control planes and a worker each: ours, and one of manual kubeadm with the same audit and
 * encryption.
 */
export class TwoClusters implements AsyncDisposable {
  readonly ours: MeasuredCluster;
  readonly theirs: MeasuredCluster;
  /** Path of a copy of kubectl that this machine can run. */
  readonly kubectl: string;
  readonly #environment: BenchEnvironment;

  private constructor(
    environment: BenchEnvironment,
    made: {
      readonly ours: MeasuredCluster;
      readonly theirs: MeasuredCluster;
      readonly kubectl: string;
    },
  ) {
    this.#environment = environment;
    this.ours = made.ours;
    this.theirs = made.theirs;
    this.kubectl = made.kubectl;
  }

  static async open(): Promise<TwoClusters> {
    const environment = await BenchEnvironment.open();
    try {
      const machines = await startTheirs(environment);
      const ours = await createOurs(environment);
      const theirs = await createTheirs(environment, machines, ours.controlPlanes[0]);
      return new TwoClusters(environment, { ours, theirs, kubectl: await installKubectl(environment) });
    } catch (error) {
      await environment[Symbol.asyncDispose]();
      throw error;
    }
  }

  get signal(): AbortSignal {
    return this.#environment.bench.signal;
  }

  get directory(): string {
    return this.#environment.bench.directory;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.ours.client[Symbol.dispose]();
    this.theirs.client[Symbol.dispose]();
    await this.#environment[Symbol.asyncDispose]();
  }
}

async function createOurs(environment: BenchEnvironment): Promise<MeasuredCluster> {
  await environment.cli(['mini', 'up', '--name', OURS, '--control-planes', '3', '--workers', '1']);
  const cluster = await environment.bench.cluster(OURS);
  const nodes = await Promise.all([...CONTROL_PLANES, WORKER].map((name) => cluster.node(name)));
  return measured(environment, nodes, join(cluster.paths.workspace, 'kubeconfig'));
}

async function startTheirs(environment: BenchEnvironment): Promise<FourOf<ManualMachine>> {
  const { machines, root, signal } = environment.bench;
  const cluster = await createCluster(machines, { root, name: THEIRS, signal });
  const started: ManualMachine[] = [];
  for (const name of [...CONTROL_PLANES, WORKER])
    started.push(await environment.startManualMachine(cluster, name));
  return fourOf(started);
}

async function createTheirs(
  environment: BenchEnvironment,
  machines: FourOf<ManualMachine>,
  model: LocalNode,
): Promise<MeasuredCluster> {
  const { signal } = environment.bench;
  const [first, second, third, worker] = machines;
  const shared = await readShared(model, `${first.node.address}:6443`, signal);
  const pack = `tar --create --gzip ${SHARED_DIRECTORIES.join(' ')} 2> /dev/null | base64`;
  const { stdout: files } = await model.exec(['sh', '-c', pack], { signal });
  const unpack = 'base64 --decode | tar --extract --gzip --directory /';
  for (const { node } of [first, second, third])
    await node.exec(['sh', '-c', unpack], { input: files, signal });
  const others = [{ ...second, shared }, { ...third, shared }, worker];
  const kubeconfig = await createManualControlPlanes({ ...first, shared }, others);
  return measured(
    environment,
    machines.map(({ node }) => node),
    kubeconfig,
  );
}

/**
 * Reads the audit and encryption arguments of our API server, so that the API server of kubeadm gets the same
 * arguments.
 */
async function readShared(
  model: LocalNode,
  endpoint: string,
  signal: AbortSignal,
): Promise<SharedControlPlane> {
  const { stdout } = await model.exec(['cat', MANIFEST], { signal });
  const found = [...stdout.matchAll(/^ *- --((?:audit|encryption)-[a-z-]+)=(\S+)$/gm)];
  if (found.length === 0) throw new Error('our API server has no audit log and no encryption');
  return {
    endpoint,
    certificateKey: randomBytes(32).toString('hex'),
    apiServerArguments: Object.fromEntries(found.map(([, name = '', value = '']) => [name, value])),
    apiServerMounts: [
      ...SHARED_DIRECTORIES.map((path) => ({ path, isWritable: false })),
      { path: AUDIT_LOG_DIRECTORY, isWritable: true },
    ],
  };
}

async function measured(
  { manifest }: BenchEnvironment,
  nodes: readonly LocalNode[],
  kubeconfig: string,
): Promise<MeasuredCluster> {
  const [first, second, third, worker] = fourOf(nodes);
  const image = (name: string): string =>
    manifest.components.find((component) => component.name === name)?.references?.[0] ?? '';
  return {
    client: await ApiClient.open(kubeconfig),
    hosts: [first.address, second.address, third.address],
    images: { pause: image('pause'), web: image('web-image') },
    ...{ kubeconfig, controlPlanes: [first, second, third], worker },
  };
}

type FourOf<T> = readonly [T, T, T, T];

function fourOf<T>(each: readonly T[]): FourOf<T> {
  const [first, second, third, fourth] = each;
  if (first === undefined || second === undefined || third === undefined || fourth === undefined)
    throw new Error('four machines are needed');
  return [first, second, third, fourth];
}

async function installKubectl(environment: BenchEnvironment): Promise<string> {
  const program = join(environment.bench.directory, 'kubectl');
  const blob = environment.blob('kubectl');
  const commands = new ExecaRunner({ path: process.env['PATH'] ?? '' });
  await commands.run({ argv: ['install', '-m', '755', blob, program], signal: environment.bench.signal });
  return program;
}
