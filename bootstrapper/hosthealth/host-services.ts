import { PORTS } from '../../internal/endpoint/index.ts';
import { describeError } from '../../internal/errors/index.ts';
import { UNIT_DIRECTORY, type SystemPorts, type UnitStatus } from '../../internal/platform/index.ts';
import { lastErrorLine } from '../../internal/lasterror/index.ts';
import { ETCD_INSTANCES } from '../consensus/index.ts';
import { CONTAINERD_UNIT, KUBELET_UNIT, PATHS } from '../kubernetes/index.ts';
import { answerProbe, HTTP2_HELLO, httpProbe, type Probe } from './local-probes.ts';

/** A service that was well is not probed again for this time. */
const WELL_CACHE_MS = 20_000;
/** A service that starts or restarts is well again within this time. */
const GRACE_MS = 15_000;
/** The log of a service that is not well is read again after this time. */
const LOG_CACHE_MS = 20_000;
const LOG_LINES = 100;

/** A service of a node: a systemd unit without which the node does not work. */
export interface HostService {
  /** "kubelet" */
  readonly name: string;
  readonly unit: string;
  /** Only control planes have it. */
  readonly isOfControlPlane: boolean;
  readonly probe: Probe;
}

/** A service that is not well, and why: "does not start: unknown flag: --x". */
export interface ServiceProblem {
  readonly name: string;
  readonly why: string;
}

/** The services of every node, and those of control planes. */
export function hostServices(): readonly HostService[] {
  const etcd = (name: string, { unit }: { readonly unit: string }, port: number): HostService => {
    return { name, unit, isOfControlPlane: true, probe: httpProbe(port, '/livez') };
  };
  return [
    {
      ...{ name: 'containerd', unit: CONTAINERD_UNIT, isOfControlPlane: false },
      probe: answerProbe({ path: PATHS.containerdSocket }, HTTP2_HELLO),
    },
    {
      ...{ name: 'kubelet', unit: KUBELET_UNIT, isOfControlPlane: false },
      probe: httpProbe(PORTS.kubeletHealth, '/healthz'),
    },
    etcd('state etcd', ETCD_INSTANCES.state, PORTS.stateEtcd.metrics),
    etcd('Kubernetes etcd', ETCD_INSTANCES.kubernetes, PORTS.kubernetesEtcd.metrics),
  ];
}

/** One line for each service: that a service is hung says more than what its log says about the end of it. */
export function withHung(
  hung: readonly ServiceProblem[],
  found: readonly ServiceProblem[],
): readonly ServiceProblem[] {
  const names = new Set(hung.map(({ name }) => name));
  return [...hung, ...found.filter(({ name }) => !names.has(name))];
}

type Ports = Pick<SystemPorts, 'files' | 'units' | 'clock'>;

/**
 * Finds services of this machine that are not well. While all are well, it only connects to each one now and then; it asks systemd and
 * the journal only about a service that does not answer.
 */
export class HostServices {
  readonly #services: readonly WatchedService[];

  constructor(ports: Ports, services: readonly HostService[]) {
    this.#services = services.map((service) => new WatchedService(ports, service));
  }

  /** @param isControlPlane whether this machine is to run the services of a control plane */
  async findProblems(isControlPlane: boolean, signal: AbortSignal): Promise<readonly ServiceProblem[]> {
    const wanted = this.#services.filter(({ isOfControlPlane }) => isControlPlane || !isOfControlPlane);
    const found = await Promise.all(wanted.map((each) => each.findProblem(signal)));
    return found.flatMap((problem) => problem ?? []);
  }
}

interface Failing {
  readonly sinceMs: number;
  /** The automatic restarts of the unit when the first probe failed; undefined if systemd does not say. */
  readonly restarts: number | undefined;
  /** Whether the last probe succeeded. */
  isAnswering: boolean;
  said: { readonly atMs: number; readonly why: string } | undefined;
}

class WatchedService {
  readonly #ports: Ports;
  readonly #service: HostService;
  #wellMs = -Infinity;
  #failing: Failing | undefined;

  constructor(ports: Ports, service: HostService) {
    this.#ports = ports;
    this.#service = service;
  }

  get isOfControlPlane(): boolean {
    return this.#service.isOfControlPlane;
  }

  async findProblem(signal: AbortSignal): Promise<ServiceProblem | undefined> {
    const { clock } = this.#ports;
    const { name, probe } = this.#service;
    const nowMs = clock.monotonicMs();
    if (nowMs - this.#wellMs < WELL_CACHE_MS) return undefined;
    const failure = await failureOf(probe, signal);
    if (this.#isWell(failure) || !(await this.#isInstalled())) {
      this.#wellMs = nowMs;
      this.#failing = undefined;
      return undefined;
    }
    const failing = (this.#failing ??= {
      ...{ sinceMs: nowMs, isAnswering: false, said: undefined },
      restarts: (await this.#status(signal))?.restarts,
    });
    failing.isAnswering = failure === undefined;
    if (nowMs - failing.sinceMs < GRACE_MS) return undefined;
    if (failing.said === undefined || nowMs - failing.said.atMs >= LOG_CACHE_MS)
      failing.said = { atMs: nowMs, why: await this.#explain(failing, failure, signal) };
    return { name, why: failing.said.why };
  }

  /** A service that ends and is started again and again answers for a moment: it must answer twice. */
  #isWell(failure: string | undefined): boolean {
    return failure === undefined && this.#failing?.isAnswering !== false;
  }

  /** The agent of a machine that is about to become a node has not written the unit yet. */
  async #isInstalled(): Promise<boolean> {
    return (await this.#ports.files.stat(`${UNIT_DIRECTORY}/${this.#service.unit}`)) !== undefined;
  }

  async #explain({ restarts }: Failing, failure: string | undefined, signal: AbortSignal): Promise<string> {
    const { unit } = this.#service;
    const status = await this.#status(signal);
    if (status?.active === 'inactive' && status.result === 'success') return `is stopped (${unit})`;
    const line = await this.#lastError(signal);
    if (status === undefined || (status.active === 'active' && status.restarts === restarts))
      return ['runs, and is not well', failure, line].filter((each) => each !== undefined).join(': ');
    return `does not start: ${line ?? `${unit} is ${status.active} (${status.result})`}`;
  }

  /** Undefined if systemd does not answer: that must not prevent the other facts of the status. */
  async #status(signal: AbortSignal): Promise<UnitStatus | undefined> {
    try {
      return await this.#ports.units.status(this.#service.unit, signal);
    } catch {
      signal.throwIfAborted();
      return undefined;
    }
  }

  async #lastError(signal: AbortSignal): Promise<string | undefined> {
    try {
      return lastErrorLine(await this.#ports.units.recentLog(this.#service.unit, LOG_LINES, signal));
    } catch {
      signal.throwIfAborted();
      return undefined;
    }
  }
}

async function failureOf(probe: Probe, signal: AbortSignal): Promise<string | undefined> {
  try {
    await probe(signal);
    return undefined;
  } catch (error) {
    signal.throwIfAborted();
    return describeError(error);
  }
}
