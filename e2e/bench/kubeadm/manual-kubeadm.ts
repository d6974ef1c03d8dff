import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { BundleManifest } from '../../../internal/bundle/index.ts';
import { ExecaRunner } from '../../../internal/exec/index.ts';
import type { LocalNode } from '../../../internal/localmachines/index.ts';
import {
  BIN,
  filesFor,
  imagesOf,
  joinConfig,
  KUBEADM_CONFIG,
  programsOf,
  type SharedControlPlane,
} from './configuration.ts';

const POD_SUBNET = '198.19.0.0/17';
const SERVICE_SUBNET = '198.19.128.0/17';
const NODE_PORT = 30080;
const SEED = '/var/lib/cluster-seed/blobs/sha256';
const STAGE_MS = 300_000;
const POLL_MS = 250;
/** cgroup v1 */
const IGNORED = '--ignore-preflight-errors=SystemVerification';

/** How long each stage of a cluster with manual kubeadm took, in ms. */
export interface ManualTimes {
  readonly programsMs: number;
  readonly imagesMs: number;
  readonly kubeadmMs: number;
  /** Time from the end of `kubeadm init` until the pod of the chart answers. */
  readonly answerMs: number;
}

/** Callbacks at the end of a stage. */
export interface ManualHooks {
  /** Called when `kubeadm init` has reported that the API is ready. */
  readonly onApiReady: () => Promise<void>;
}

export interface ManualMachine {
  readonly node: LocalNode;
  readonly manifest: BundleManifest;
  /** The directory on this machine with the bundle's blobs, one file `<sha256>` each. */
  readonly blobs: string;
  /** A directory for the kubeconfig and the values of charts. */
  readonly directory: string;
  readonly searchPath: string;
  readonly signal: AbortSignal;
  /** Set on the machines of a control plane of several machines. */
  readonly shared?: SharedControlPlane;
}

/**
 * Creates a cluster on one machine as the documentation of kubeadm describes it, without pauses between the commands.
 * Copies the programs, imports the images one after the other and runs `kubeadm init`. Then installs the same two
 * charts as our CLI, with the same helm.
 */
export async function createManualCluster(hand: ManualMachine, hooks: ManualHooks): Promise<ManualTimes> {
  const programsMs = await timed(() => installPrograms(hand));
  const imagesMs = await timed(() => importImages(hand));
  const kubeadmMs = await timed(() => kubeadmInit(hand));
  await hooks.onApiReady();
  const answerMs = await timed(() => installCharts(hand));
  return { programsMs, imagesMs, kubeadmMs, answerMs };
}

/**
 * Creates a control plane on the first machine, installs the network and adds the other machines one after the other, as the
 * documentation of kubeadm describes it for stacked etcd. Returns the path of an administrator's kubeconfig.
 */
export async function createManualControlPlanes(
  first: ManualMachine,
  others: readonly ManualMachine[],
): Promise<string> {
  await installPrograms(first);
  await importImages(first);
  await kubeadmInit(first);
  const kubeconfig = await installNetwork(first);
  for (const machine of others) await joinManually(machine, first.node);
  return kubeconfig;
}

/**
 * Time that a worker needs for programs and images before `kubeadm join`, in ms, and the start of the join,
 * in ms since the epoch.
 */
export interface ManualJoinTimes {
  readonly programsMs: number;
  readonly imagesMs: number;
  readonly joinedFromMs: number;
}

/**
 * Adds a machine to a cluster that was created with kubeadm: copy programs, import the images, `kubeadm join`. The
 * machine becomes a control plane if `hand.shared` is set. Otherwise it becomes a worker and gets only the images for
 * nodes.
 */
export async function joinManually(hand: ManualMachine, controlPlane: LocalNode): Promise<ManualJoinTimes> {
  const programsMs = await timed(() => installPrograms(hand));
  const imagesMs = await timed(() => importImages(hand, hand.shared === undefined ? 'node' : undefined));
  const { stdout } = await controlPlane.exec(
    ['sh', '-c', `KUBECONFIG=/etc/kubernetes/admin.conf ${BIN}/kubeadm token create --print-join-command`],
    { timeoutMs: STAGE_MS, signal: hand.signal },
  );
  const joinedFromMs = Date.now();
  const { address, name: nodeName } = hand.node;
  const config = joinConfig(stdout, { address, nodeName }, hand.shared?.certificateKey);
  const write = `install -D -m 600 /dev/stdin ${KUBEADM_CONFIG} <<'END'\n${config}END`;
  await inNode(hand.node, `${write}\n${BIN}/kubeadm join --config ${KUBEADM_CONFIG} ${IGNORED}`, hand.signal);
  return { programsMs, imagesMs, joinedFromMs };
}

async function installPrograms({ node, manifest, signal, shared }: ManualMachine): Promise<void> {
  const pauseImage = manifest.components.find(({ name }) => name === 'pause')?.references?.[0] ?? '';
  const files = filesFor({
    address: node.address,
    nodeName: node.name,
    kubernetesVersion: manifest.kubernetesVersion,
    podSubnet: POD_SUBNET,
    serviceSubnet: SERVICE_SUBNET,
    pauseImage,
    ...(shared === undefined ? {} : { shared }),
  });
  const script = [
    'set -e',
    ...programsOf(manifest).map(({ sha256, path }) => `install -D -m 755 ${SEED}/${sha256} ${path}`),
    ...Object.entries(files).map(
      ([path, text]) => `install -D -m 644 /dev/stdin ${path} <<'END'\n${text}END`,
    ),
    'echo 1 > /proc/sys/net/ipv4/ip_forward',
    'systemctl daemon-reload',
    'systemctl enable --quiet kubelet',
    'systemctl start containerd',
  ];
  await inNode(node, script.join('\n'), signal);
}

async function importImages({ node, manifest, signal }: ManualMachine, scope?: 'node'): Promise<void> {
  const imports = imagesOf(manifest, scope).map(
    (sha256) => `${BIN}/ctr --namespace k8s.io images import ${SEED}/${sha256}`,
  );
  await inNode(node, ['set -e', ...imports].join('\n'), signal);
}

async function kubeadmInit({ node, signal, shared }: ManualMachine): Promise<void> {
  const upload = shared === undefined ? '' : '--upload-certs ';
  await inNode(node, `${BIN}/kubeadm init ${upload}--config ${KUBEADM_CONFIG} ${IGNORED}`, signal);
}

async function installCharts(hand: ManualMachine): Promise<void> {
  const kubeconfig = await installNetwork(hand);
  const values = { service: { nodePort: NODE_PORT } };
  await helm(hand, kubeconfig, { name: 'hello', namespace: 'default', chart: 'hello', values });
  await untilItAnswers(`http://${hand.node.address}:${NODE_PORT}/`);
}

/** Installs flannel. Returns the path of a copy of the machine's admin.conf. */
async function installNetwork(hand: ManualMachine): Promise<string> {
  const { node, directory, signal } = hand;
  const { stdout } = await node.exec(['cat', '/etc/kubernetes/admin.conf'], { signal });
  const kubeconfig = join(directory, 'manual-kubeadm.conf');
  await writeFile(kubeconfig, stdout, { mode: 0o600 });
  await helm(hand, kubeconfig, {
    name: 'flannel',
    namespace: 'kube-flannel',
    chart: 'flannel-chart',
    values: { podCIDR: POD_SUBNET },
  });
  return kubeconfig;
}

async function helm(
  { blobs, directory, manifest, searchPath, signal }: ManualMachine,
  kubeconfig: string,
  release: {
    readonly name: string;
    readonly namespace: string;
    readonly chart: string;
    readonly values: object;
  },
): Promise<void> {
  const { name, namespace, chart, values } = release;
  const blob = (wanted: string): string => {
    const found = manifest.components.find((component) => component.name === wanted);
    if (found === undefined) throw new Error(`the bundle has no ${wanted}`);
    return join(blobs, found.sha256);
  };
  const program = join(directory, 'helm');
  const commands = new ExecaRunner({ path: searchPath });
  await commands.run({ argv: ['install', '-m', '755', blob('helm'), program], signal });
  await commands.run({
    argv: [
      program,
      'install',
      name,
      blob(chart),
      '--namespace',
      namespace,
      '--create-namespace',
      '--values',
      '-',
      '--kubeconfig',
      kubeconfig,
    ],
    env: { HOME: directory, PATH: searchPath },
    input: JSON.stringify(values),
    timeoutMs: STAGE_MS,
    signal,
  });
}

async function untilItAnswers(url: string): Promise<void> {
  const deadlineMs = performance.now() + STAGE_MS;
  for (;;) {
    const ok = await fetch(url).then(
      (response) => response.ok,
      () => false,
    );
    if (ok) return;
    if (performance.now() > deadlineMs) throw new Error(`${url} did not answer`);
    await delay(POLL_MS);
  }
}

async function inNode(node: LocalNode, script: string, signal: AbortSignal): Promise<void> {
  await node.exec(['sh', '-s'], { input: script, timeoutMs: STAGE_MS, signal });
}

async function timed(work: () => Promise<void>): Promise<number> {
  const startMs = performance.now();
  await work();
  return performance.now() - startMs;
}
