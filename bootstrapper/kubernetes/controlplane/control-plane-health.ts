import { PORTS } from '../../../internal/endpoint/index.ts';
import { describeError } from '../../../internal/errors/index.ts';
import type { SystemPorts } from '../../../internal/platform/index.ts';
import type { HealthProbe } from './api-probe.ts';
import { PATHS } from '../settings.ts';
import { findServersTrust } from '../credentials/key-pair.ts';
import { STATIC_PODS, type StaticPod } from '../credentials/shared-keys.ts';

/** One failed probe may only mean that the component is busy. */
const MAX_FAILURES = 2;
/**
 * A component that was ready is not probed again for this time. Probing it with each heartbeat would be most
 * of the work of an idle agent.
 */
const READY_CACHE_MS = 20_000;
/** The log of a component that does not listen is read again after this time. */
const LOG_CACHE_MS = 10_000;
const API_SERVER_MANIFEST = `${PATHS.manifests}/kube-apiserver.yaml`;

/** The health of one control-plane component of this node. */
export interface StaticPodHealth {
  readonly name: StaticPod;
  readonly isReady: boolean;
  /** Time at which the component became ready or not ready, in Unix milliseconds. */
  readonly sinceMs: number;
  /** Why the component is not ready; empty if it is ready. */
  readonly why: string;
}

interface LastProbe {
  readonly isReady: boolean;
  readonly sinceMs: number;
  readonly failures: number;
  /** Monotonic time of the last probe; -Infinity while the node gains or loses the role. */
  readonly probedMs: number;
}

/** The control plane to check. */
export interface ControlPlaneHealthQuery {
  readonly nodeAddress: string;
  /** Whether this node has the control-plane role. */
  readonly hasRole: boolean;
}

/** Ports (injected dependencies) of the health check. */
export interface HealthPorts extends Pick<SystemPorts, 'files' | 'clock'> {
  readonly probe: HealthProbe;
  /** The last error in the log of a component; undefined if nobody asks why a component is not ready. */
  readonly lastError?: (name: StaticPod, signal: AbortSignal) => Promise<string | undefined>;
}

/** Checks whether the API server, controller manager and scheduler of this node are ready, and since when. */
export class ControlPlaneHealth {
  readonly #ports: HealthPorts;
  readonly #last = new Map<StaticPod, LastProbe>();
  readonly #said = new Map<StaticPod, { readonly atMs: number; readonly line: string | undefined }>();

  constructor(ports: HealthPorts) {
    this.#ports = ports;
  }

  /**
   * Returns the health of all three components from the promotion until the demotion is complete; otherwise
   * an empty list.
   */
  async check(
    { nodeAddress, hasRole: isWanted }: ControlPlaneHealthQuery,
    signal: AbortSignal,
  ): Promise<readonly StaticPodHealth[]> {
    const { files } = this.#ports;
    // A demotion deletes admin.conf last, even if the agent restarts during the demotion.
    const isRemaining = (await files.stat(PATHS.adminConf)) !== undefined;
    if (isWanted || isRemaining) {
      const isSteady = isWanted && (await files.stat(API_SERVER_MANIFEST)) !== undefined;
      return Promise.all(STATIC_PODS.map((name) => this.#probe(name, { nodeAddress, isSteady }, signal)));
    }
    this.#last.clear();
    return [];
  }

  async #probe(
    name: StaticPod,
    { nodeAddress, isSteady }: { readonly nodeAddress: string; readonly isSteady: boolean },
    signal: AbortSignal,
  ): Promise<StaticPodHealth> {
    const { clock } = this.#ports;
    const before = this.#last.get(name);
    const probedMs = clock.monotonicMs();
    if (
      isSteady &&
      before?.isReady === true &&
      before.failures === 0 &&
      probedMs - before.probedMs < READY_CACHE_MS
    )
      return { name, isReady: true, sinceMs: before.sinceMs, why: '' };
    const why = await this.#whyNotReady(name, nodeAddress, signal);
    const failures = why === '' ? 0 : (before?.failures ?? 0) + 1;
    const isReady = why === '' || (isSteady && before?.isReady === true && failures < MAX_FAILURES);
    const sinceMs = before?.isReady === isReady ? before.sinceMs : clock.nowMs();
    this.#last.set(name, { isReady, sinceMs, failures, probedMs: isSteady ? probedMs : -Infinity });
    return { name, isReady, sinceMs, why: isReady ? '' : why };
  }

  async #whyNotReady(name: StaticPod, nodeAddress: string, signal: AbortSignal): Promise<string> {
    const { files, probe } = this.#ports;
    try {
      if (name === 'kube-apiserver') {
        const caPem = await findServersTrust(files);
        if (caPem === undefined) return 'its certificates do not exist yet';
        await probe({ host: nodeAddress, port: PORTS.apiServer, path: '/readyz', caPem, signal });
      } else await probe({ host: '127.0.0.1', ...LOCAL_ENDPOINTS[name], signal });
      return '';
    } catch (error) {
      signal.throwIfAborted();
      const why = describeError(error);
      return isRefused(error) ? this.#explainRefusal(name, why, signal) : why;
    }
  }

  /** Nothing listens: the component starts, or it has ended and will be started again. */
  async #explainRefusal(name: StaticPod, why: string, signal: AbortSignal): Promise<string> {
    const { clock, lastError } = this.#ports;
    const nowMs = clock.monotonicMs();
    let said = this.#said.get(name);
    if (lastError !== undefined && (said === undefined || nowMs - said.atMs >= LOG_CACHE_MS))
      this.#said.set(name, (said = { atMs: nowMs, line: await lastError(name, signal) }));
    return said?.line === undefined ? why : `does not listen: ${said.line} (${why})`;
  }
}

function isRefused(error: unknown): boolean {
  return (error as NodeJS.ErrnoException).code === 'ECONNREFUSED';
}

/** Loopback endpoints as kubeadm configures them. The controller manager has no `/readyz`. */
const LOCAL_ENDPOINTS = {
  'kube-controller-manager': { port: PORTS.controllerManager, path: '/healthz' },
  'kube-scheduler': { port: PORTS.scheduler, path: '/readyz' },
} as const;
