import { formatDuration } from '../../internal/clock/index.ts';
import { PORTS } from '../../internal/endpoint/index.ts';
import { describeError } from '../../internal/errors/index.ts';
import type { Logger } from '../../internal/logging/index.ts';
import { processorTicks, type SystemPorts } from '../../internal/platform/index.ts';
import type { Scope } from '../../internal/supervisor/index.ts';
import { ETCD_INSTANCES } from '../consensus/index.ts';
import { CONTAINERD_UNIT, KUBELET_UNIT, PATHS } from '../kubernetes/index.ts';
import { JOINSERVICE_UNIT } from '../units/index.ts';
import type { ServiceProblem } from './host-services.ts';
import { answerProbe, HTTP1_HELLO, HTTP2_HELLO, SilentError, type Probe } from './local-probes.ts';

/** Pauses between looks: while all services answer, and while one does not. */
const LOOK_MS = 4_000;
const SUSPECT_MS = 1_000;
/** A service that answered is looked at again in the third look from then on, if nobody loses a lease by its hang. */
const PATIENT_LOOKS = 3;
/**
 * A process that did not answer, and did not run at all, for this time is hung. A lease of a kubelet lives 40 s: API servers refuse
 * kubelets while their join service or their state etcd does not answer, and a kubelet tries again only after 10 s.
 */
const HUNG_MS = 10_000;
/** A process that uses the processor and does not answer may be overloaded, or have much to read. It gets more time. */
const BUSY_MS = 60_000;
const MIN_MISSES = 3;
/** If a look or a pause takes this much longer than it should, this program or the whole machine was stopped. */
const STALL_MS = 1_000;
const LONGEST_LOOK_MS = 2_000;
/** A restart that did not help is repeated after this pause, and then after twice the last pause. */
const FIRST_BACKOFF_MS = 60_000;
const MAX_BACKOFF_MS = 1_800_000;
/** How long the status of this node names what happened. */
const REPORT_MS = 120_000;

/** A program on this node that answers requests while it runs. */
export interface AnsweringService {
  readonly name: string;
  /** Undefined for a program in a pod: the kubelet restarts it, because its liveness probe fails too. */
  readonly unit: string | undefined;
  /** Only control planes have it. */
  readonly isOfControlPlane: boolean;
  /** Whether kubelets lose their leases within a minute if it hangs, so that it is looked at most often. */
  readonly isUrgent: boolean;
  /** Rejects with `SilentError` if the program does not answer in any way. */
  readonly probe: Probe;
}

/** The programs whose hang would take down more than themselves. The kubelet restarts the static pods of a control plane. */
export function answeringServices(): readonly AnsweringService[] {
  const http = (port: number): Probe => answerProbe({ host: '127.0.0.1', port }, HTTP1_HELLO);
  const controlPlane = { isOfControlPlane: true, isUrgent: true };
  const etcd = (name: string, { unit }: { readonly unit: string }, port: number): AnsweringService => ({
    ...{ ...controlPlane, name, unit, probe: http(port) },
  });
  const node = { isOfControlPlane: false, isUrgent: false };
  return [
    etcd('state etcd', ETCD_INSTANCES.state, PORTS.stateEtcd.metrics),
    etcd('Kubernetes etcd', ETCD_INSTANCES.kubernetes, PORTS.kubernetesEtcd.metrics),
    {
      ...{ ...controlPlane, name: 'join service and curator', unit: JOINSERVICE_UNIT },
      probe: http(PORTS.joinserviceMetrics),
    },
    {
      ...{ ...node, name: 'containerd', unit: CONTAINERD_UNIT },
      probe: answerProbe({ path: PATHS.containerdSocket }, HTTP2_HELLO),
    },
    { ...node, name: 'kubelet', isUrgent: true, unit: KUBELET_UNIT, probe: http(PORTS.kubeletHealth) },
    { ...node, name: 'flannel', unit: undefined, probe: http(PORTS.flannelHealth) },
    { ...node, name: 'kube-proxy', unit: undefined, probe: http(PORTS.kubeProxyHealth) },
  ];
}

type Ports = Pick<SystemPorts, 'files' | 'units' | 'clock'>;

/**
 * Restarts services of this machine that are hung: the process is there and takes connections, and answers nothing. systemd restarts
 * only what ends. A service counts as hung only if nothing at all comes back; a service that answers with an error, refuses
 * connections or starts is left alone, and so is an etcd member without a quorum or with a slow disk. A hung member serves nobody, so
 * its end takes nothing from the cluster.
 */
export class HungServices {
  readonly #clock: Ports['clock'];
  readonly #services: readonly WatchedProcess[];

  constructor(ports: Ports, services: readonly AnsweringService[]) {
    this.#clock = ports.clock;
    this.#services = services.map((service) => new WatchedProcess(ports, service));
  }

  /** Watches the services until the signal fires. @param isControlPlane whether this machine is to run those of a control plane */
  async watch({ signal, log, healthy }: Scope, isControlPlane: () => boolean): Promise<never> {
    healthy();
    for (let look = 0; ; look++) {
      const lookedMs = this.#clock.monotonicMs();
      const services = this.#services
        .filter((each) => isControlPlane() || !each.isOfControlPlane)
        .filter((each) => each.isUrgent || each.isSilent || look % PATIENT_LOOKS === 0);
      const answers = await Promise.all(services.map((each) => each.answers(signal)));
      // An agent that continues too late measures its own pause.
      const hasStalled = this.#elapsed(lookedMs) > LONGEST_LOOK_MS + STALL_MS;
      for (const [index, service] of services.entries())
        if (hasStalled) service.forget();
        else await service.judge(answers[index] ?? 'other', lookedMs, { signal, log });
      const pauseMs = services.some(({ isSilent }) => isSilent) ? SUSPECT_MS : LOOK_MS;
      const pausedMs = this.#clock.monotonicMs();
      await this.#clock.sleep(pauseMs, signal);
      if (this.#elapsed(pausedMs) > pauseMs + STALL_MS) for (const each of services) each.forget();
    }
  }

  /** The services that are hung, or were restarted in the last two minutes; the newest first. */
  problems(): readonly ServiceProblem[] {
    const reports = this.#services.flatMap((each) => each.report() ?? []);
    return reports.toSorted((a, b) => b.saidMs - a.saidMs).map(({ name, why }) => ({ name, why }));
  }

  #elapsed(sinceMs: number): number {
    return this.#clock.monotonicMs() - sinceMs;
  }
}

/** `other`: it refused or closed the connection, or does not exist. */
type Answer = 'answered' | 'silent' | 'other';

interface Silence {
  readonly sinceMs: number;
  /** The main process of the unit, and the processor time that it had used, at the first miss. */
  readonly process: { readonly pid: number; readonly ticks: number | undefined } | undefined;
  misses: number;
}

interface Report {
  readonly why: string;
  readonly saidMs: number;
}

class WatchedProcess {
  readonly #ports: Ports;
  readonly #service: AnsweringService;
  #silence: Silence | undefined;
  #report: Report | undefined;
  #isLeftToKubelet = false;
  #killedMs = -Infinity;
  #backoffMs = 0;

  constructor(ports: Ports, service: AnsweringService) {
    this.#ports = ports;
    this.#service = service;
  }

  get isOfControlPlane(): boolean {
    return this.#service.isOfControlPlane;
  }

  get isUrgent(): boolean {
    return this.#service.isUrgent;
  }

  get isSilent(): boolean {
    return this.#silence !== undefined;
  }

  report(): (ServiceProblem & Report) | undefined {
    if (this.#report === undefined) return undefined;
    const { why, saidMs } = this.#report;
    const isOver = this.#ports.clock.monotonicMs() - saidMs >= REPORT_MS;
    return isOver ? undefined : { name: this.#service.name, why, saidMs };
  }

  async answers(signal: AbortSignal): Promise<Answer> {
    try {
      await this.#service.probe(signal);
      return 'answered';
    } catch (error) {
      signal.throwIfAborted();
      return error instanceof SilentError ? 'silent' : 'other';
    }
  }

  forget(): void {
    this.#silence = undefined;
  }

  async judge(
    answer: Answer,
    askedMs: number,
    context: { readonly signal: AbortSignal; readonly log: Logger },
  ): Promise<void> {
    if (answer !== 'silent') return this.#isWell(answer);
    this.#silence ??= { sinceMs: askedMs, process: await this.#process(context.signal), misses: 0 };
    const silence = this.#silence;
    silence.misses++;
    const silentMs = this.#ports.clock.monotonicMs() - silence.sinceMs;
    if (silence.misses < MIN_MISSES || silentMs < HUNG_MS) return;
    if (this.#service.unit === undefined) {
      this.#isLeftToKubelet = true;
      return this.#say('does not answer: the kubelet restarts it');
    }
    await this.#restart(this.#service.unit, silence, { ...context, silentMs });
  }

  #isWell(answer: Answer): void {
    this.#silence = undefined;
    if (!this.#isLeftToKubelet || answer !== 'answered') return;
    this.#isLeftToKubelet = false;
    this.#say(`did not answer; it answers again since ${timeOf(this.#ports.clock.nowMs())}`);
  }

  async #restart(
    unit: string,
    silence: Silence,
    {
      silentMs,
      signal,
      log,
    }: { readonly silentMs: number; readonly signal: AbortSignal; readonly log: Logger },
  ): Promise<void> {
    const { units, clock } = this.#ports;
    const process = await this.#process(signal);
    if (process === undefined || process.pid !== silence.process?.pid) return this.forget();
    const isBusy = process.ticks === undefined || process.ticks !== silence.process.ticks;
    if (isBusy && silentMs < BUSY_MS) return;
    const nowMs = clock.monotonicMs();
    const silent = `no answer for ${formatDuration(silentMs)}`;
    if (nowMs - this.#killedMs < this.#backoffMs)
      return this.#say(`does not answer, although it was restarted`);
    if (nowMs - this.#killedMs > 2 * MAX_BACKOFF_MS) this.#backoffMs = 0;
    this.#backoffMs = Math.min(2 * this.#backoffMs || FIRST_BACKOFF_MS, MAX_BACKOFF_MS);
    this.#killedMs = nowMs;
    this.forget();
    log.warn('killing a hung service', { unit, pid: process.pid, silentMs, isBusy });
    try {
      await units.kill(unit, signal);
      this.#say(`was hung (${silent}): killed and started again at ${timeOf(clock.nowMs())}`);
    } catch (error) {
      signal.throwIfAborted();
      this.#say(`is hung (${silent}), and cannot be killed: ${describeError(error)}`);
    }
  }

  /** The text must not change while nothing happens: each change of a node's status is a write to etcd. */
  #say(why: string): void {
    this.#report = { why, saidMs: this.#ports.clock.monotonicMs() };
  }

  /** The running main process; undefined if the unit does not run, or systemd does not answer. */
  async #process(signal: AbortSignal): Promise<Silence['process']> {
    const { units, files } = this.#ports;
    const { unit } = this.#service;
    if (unit === undefined) return undefined;
    try {
      const { active, mainPid } = await units.status(unit, signal);
      if (active !== 'active' || mainPid === 0) return undefined;
      return { pid: mainPid, ticks: await processorTicks(files, mainPid) };
    } catch {
      signal.throwIfAborted();
      return undefined;
    }
  }
}

/** "18:22:05Z" */
function timeOf(nowMs: number): string {
  return `${new Date(nowMs).toISOString().slice(11, 19)}Z`;
}
