import type { Clock } from '../../../internal/clock/index.ts';
import { PORTS } from '../../../internal/endpoint/index.ts';
import { describeError } from '../../../internal/errors/index.ts';
import type { FilePort } from '../../../internal/file/index.ts';
import type { HealthProbe } from './api-probe.ts';
import { PATHS } from '../settings.ts';
import { STATIC_PODS, type StaticPod } from '../credentials/shared-keys.ts';

/** What answers slowly once is busy and not gone. */
const FAILURES = 2;
/** How long a good answer holds: asked with each beat, three parts of an idle node cost more than all the rest of its agent. */
const HOLDS_MS = 20_000;
const MAX_BYTES = 256 * 1024;
const API_SERVER_MANIFEST = `${PATHS.manifests}/kube-apiserver.yaml`;

/** One part of this node's control plane, as it was found. */
export interface StaticPodHealth {
  readonly name: StaticPod;
  readonly isReady: boolean;
  /** Since when it is as it is. */
  readonly sinceMs: number;
  /** Why it is not ready; empty where it is. */
  readonly why: string;
}

interface Seen {
  readonly isReady: boolean;
  readonly sinceMs: number;
  readonly failures: number;
  /** When it was asked last, monotonic; a long time ago for one that comes or goes. */
  readonly askedMs: number;
}

export interface ControlPlaneHealthQuery {
  readonly nodeAddress: string;
  /** Whether the cluster has this node as one. */
  readonly hasRole: boolean;
}

export interface HealthPorts {
  readonly files: FilePort;
  readonly clock: Clock;
  readonly probe: HealthProbe;
}

/** Looks whether API server, controller manager and scheduler of this node are ready, and knows since when. */
export class ControlPlaneHealth {
  readonly #ports: HealthPorts;
  readonly #seen = new Map<StaticPod, Seen>();

  constructor(ports: HealthPorts) {
    this.#ports = ports;
  }

  /** All three, each with its reason, from the role on and until nothing of them is left; then none. */
  async check(
    { nodeAddress, hasRole: isWanted }: ControlPlaneHealthQuery,
    signal: AbortSignal,
  ): Promise<readonly StaticPodHealth[]> {
    const { files } = this.#ports;
    // What an administrator may do is the last that a demotion takes away, also in another life of the agent.
    const isThere = (await files.stat(PATHS.adminConf)) !== undefined;
    if (isWanted || isThere) {
      const isSteady = isWanted && (await files.stat(API_SERVER_MANIFEST)) !== undefined;
      return Promise.all(STATIC_PODS.map((name) => this.#lookAt(name, { nodeAddress, isSteady }, signal)));
    }
    this.#seen.clear();
    return [];
  }

  async #lookAt(
    name: StaticPod,
    { nodeAddress, isSteady }: { readonly nodeAddress: string; readonly isSteady: boolean },
    signal: AbortSignal,
  ): Promise<StaticPodHealth> {
    const { clock } = this.#ports;
    const before = this.#seen.get(name);
    const askedMs = clock.monotonicMs();
    if (isSteady && before?.isReady === true && before.failures === 0 && askedMs - before.askedMs < HOLDS_MS)
      return { name, isReady: true, sinceMs: before.sinceMs, why: '' };
    const why = await this.#whyNotReady(name, nodeAddress, signal);
    const failures = why === '' ? 0 : (before?.failures ?? 0) + 1;
    const isReady = why === '' || (isSteady && before?.isReady === true && failures < FAILURES);
    const sinceMs = before?.isReady === isReady ? before.sinceMs : clock.nowMs();
    this.#seen.set(name, { isReady, sinceMs, failures, askedMs: isSteady ? askedMs : -Infinity });
    return { name, isReady, sinceMs, why: isReady ? '' : why };
  }

  async #whyNotReady(name: StaticPod, nodeAddress: string, signal: AbortSignal): Promise<string> {
    const { files, probe } = this.#ports;
    try {
      if (name === 'kube-apiserver') {
        const ca = await files.read(`${PATHS.pki}/ca.crt`, MAX_BYTES);
        if (ca === undefined) return 'its certificates are not made yet';
        const caPem = Buffer.from(ca).toString('utf8');
        await probe({ host: nodeAddress, port: PORTS.apiServer, path: '/readyz', caPem, signal });
      } else await probe({ host: '127.0.0.1', ...OF_THEIR_OWN[name], signal });
      return '';
    } catch (error) {
      signal.throwIfAborted();
      return describeError(error);
    }
  }
}

/** They listen on the node's loopback, as kubeadm has them. The controller manager has no `readyz`. */
const OF_THEIR_OWN = {
  'kube-controller-manager': { port: PORTS.controllerManager, path: '/healthz' },
  'kube-scheduler': { port: PORTS.scheduler, path: '/readyz' },
} as const;
