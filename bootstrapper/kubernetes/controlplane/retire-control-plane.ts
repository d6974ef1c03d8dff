import type { Clock } from '../../../internal/clock/index.ts';
import { PORTS } from '../../../internal/endpoint/index.ts';
import type { CommandRunner } from '../../../internal/exec/index.ts';
import type { FilePort } from '../../../internal/file/index.ts';
import type { Logger } from '../../../internal/logging/index.ts';
import { KubernetesError } from '../errors.ts';
import type { StepCheckpoints } from '../step-checkpoints.ts';
import { COMPONENT_CLIENTS } from '../credentials/key-files.ts';
import { removeOwnTaintAndLabels } from '../taints/control-plane-taint.ts';
import { PATHS } from '../settings.ts';
import { endControlPlaneGeneration } from './control-plane-generation.ts';

const MANIFESTS = ['kube-apiserver', 'kube-controller-manager', 'kube-scheduler'].map(
  (name) => `${PATHS.manifests}/${name}.yaml`,
);
/** What only a control plane may have besides its certificates. */
const CONTROL_PLANE_FILES = [
  PATHS.superAdminConf,
  ...Object.values(COMPONENT_CLIENTS).flatMap(({ conf, key, cert }) => [conf, key, cert]),
  PATHS.encryption,
  PATHS.adminConf,
];
/** The API server answers what is under way before it ends. */
const STOPPED_MS = 90_000;
const DRAIN_MS = 2_000;
const POLL_MS = 250;

export interface RetirePorts {
  readonly files: FilePort;
  readonly commands: CommandRunner;
  readonly clock: Clock;
  readonly checkpoints: StepCheckpoints;
  readonly log: Logger;
  /** Whether somebody listens on this port of this machine. */
  isListening(host: string, port: number): Promise<boolean>;
}

export interface RetireOptions {
  readonly nodeName: string;
  readonly nodeAddress: string;
  readonly signal: AbortSignal;
}

/**
 * Takes the Kubernetes control plane off this node: the node loses its mark, the static pods stop, and when none of them
 * answers any more, the keys go. The kubelet and its workloads stay. Answers whether there was anything to take off.
 * May be repeated after any crash.
 */
export async function retireControlPlane(ports: RetirePorts, options: RetireOptions): Promise<boolean> {
  const { files, checkpoints: marks, log, clock } = ports;
  const found = await remains(files);
  if (found.length === 0) return false;
  if (found.includes(PATHS.adminConf)) {
    // The balancers of all nodes take this one out as soon as its role has gone: for what they had sent before.
    await clock.sleep(DRAIN_MS, options.signal);
    await removeOwnTaintAndLabels(ports, options);
  }
  for (const path of MANIFESTS) await files.remove(path);
  await waitUntilStopped(ports, options);
  await endControlPlaneGeneration(files);
  await marks.clear(['pki', 'control-plane', 'settings']);
  for (const path of found) await files.remove(path);
  log.info('this node is no control plane of Kubernetes any more', {});
  return true;
}

/** Everything that only a control plane may have, as far as it is here. */
async function remains(files: FilePort): Promise<readonly string[]> {
  const pki = await files.list(PATHS.pki);
  const paths = [...pki.map((name) => `${PATHS.pki}/${name}`), ...MANIFESTS, ...CONTROL_PLANE_FILES];
  const stats = await Promise.all(paths.map((path) => files.stat(path)));
  return paths.filter((_, index) => stats[index] !== undefined);
}

async function waitUntilStopped(ports: RetirePorts, options: RetireOptions): Promise<void> {
  const { clock } = ports;
  const endMs = clock.monotonicMs() + STOPPED_MS;
  const listeners = [
    { name: 'kube-apiserver', host: options.nodeAddress, port: PORTS.apiServer },
    { name: 'kube-controller-manager', host: '127.0.0.1', port: PORTS.controllerManager },
    { name: 'kube-scheduler', host: '127.0.0.1', port: PORTS.scheduler },
  ];
  for (;;) {
    const found = await Promise.all(listeners.map(({ host, port }) => ports.isListening(host, port)));
    const names = listeners.filter((_, index) => found[index]).map(({ name }) => name);
    if (names.length === 0) return;
    if (clock.monotonicMs() > endMs)
      throw new KubernetesError(
        'kubernetes-still-running',
        `stopping the control plane: ${names.join(', ')}`,
      );
    await clock.sleep(POLL_MS, options.signal);
  }
}
