import { PORTS } from '../../../internal/endpoint/index.ts';
import type { FilePort } from '../../../internal/file/index.ts';
import type { SystemPorts } from '../../../internal/platform/index.ts';
import { KubernetesError } from '../errors.ts';
import type { StepCheckpoints } from '../step-checkpoints.ts';
import { COMPONENT_CLIENTS } from '../credentials/key-files.ts';
import { removeOwnTaintAndLabels } from '../taints/control-plane-taint.ts';
import { STATIC_PODS } from '../credentials/shared-keys.ts';
import { PATHS } from '../settings.ts';
import { endControlPlaneGeneration } from './control-plane-generation.ts';

const MANIFESTS = STATIC_PODS.map((name) => `${PATHS.manifests}/${name}.yaml`);
/** Files besides the certificates that only a control plane may have. */
const CONTROL_PLANE_FILES = [
  PATHS.superAdminConf,
  ...Object.values(COMPONENT_CLIENTS).flatMap(({ conf, key, cert }) => [conf, key, cert]),
  PATHS.encryption,
  PATHS.adminConf,
];
/** Time for the API server to complete its requests before it exits. */
const STOP_TIMEOUT_MS = 90_000;
const DRAIN_MS = 2_000;
const POLL_MS = 250;

/** Ports (injected dependencies) of the removal of a control plane. */
export interface RetirePorts extends Omit<SystemPorts, 'units'> {
  readonly checkpoints: StepCheckpoints;
  /** Whether a server listens on this TCP port: false only if the connection is refused. */
  isListening(host: string, port: number): Promise<boolean>;
}

/** The node that loses the control-plane role. */
export interface RetireOptions {
  readonly nodeName: string;
  readonly nodeAddress: string;
  readonly signal: AbortSignal;
}

/**
 * Removes the Kubernetes control plane from this node. It removes the label and taint, then the static pods,
 * and deletes the keys once no static pod listens. The kubelet and its workloads keep running. May be
 * repeated after any crash.
 * @returns false if no part of a control plane was found
 * @throws KubernetesError `kubernetes-still-running` after 90 s
 */
export async function retireControlPlane(ports: RetirePorts, options: RetireOptions): Promise<boolean> {
  const { files, checkpoints, log, clock } = ports;
  const found = await findRemaining(files);
  if (found.length === 0) return false;
  if (found.includes(PATHS.adminConf)) {
    // The balancers of all nodes stop using this API server when the role is gone. Wait for the requests that
    // are still on their way.
    await clock.sleep(DRAIN_MS, options.signal);
    await removeOwnTaintAndLabels(ports, options);
  }
  for (const path of MANIFESTS) await files.remove(path);
  await waitUntilStopped(ports, options);
  await endControlPlaneGeneration(files);
  await checkpoints.clear(['pki', 'control-plane', 'settings']);
  for (const path of found) await files.remove(path);
  log.info('removed the Kubernetes control plane from this node', {});
  return true;
}

/** Lists the existing files that only a control plane may have. */
async function findRemaining(files: FilePort): Promise<readonly string[]> {
  const pki = await files.list(PATHS.pki);
  const paths = [...pki.map((name) => `${PATHS.pki}/${name}`), ...MANIFESTS, ...CONTROL_PLANE_FILES];
  const stats = await Promise.all(paths.map((path) => files.stat(path)));
  return paths.filter((_, index) => stats[index] !== undefined);
}

async function waitUntilStopped(ports: RetirePorts, options: RetireOptions): Promise<void> {
  const { clock } = ports;
  const endMs = clock.monotonicMs() + STOP_TIMEOUT_MS;
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
        `stopping the control plane: ${names.join(', ')} still running`,
      );
    await clock.sleep(POLL_MS, options.signal);
  }
}
