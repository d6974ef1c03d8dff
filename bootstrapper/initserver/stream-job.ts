import type { MessageInitShape } from '@bufbuild/protobuf';
import { isDoneWithin } from '../../internal/cleanup/index.ts';
import type { Clock } from '../../internal/clock/index.ts';
import { combine, type Watcher } from '../../internal/event/index.ts';
import type { InitEventSchema, InitResultSchema } from '../../initproto/gen/init_pb.js';
import type { PhaseEvent, PhaseLog, RecordedEvent } from '../phases/index.ts';
import type { InitJob, InitOutcome } from './init-job.ts';

const HEARTBEAT_MS = 5_000;
/**
 * A phase that failed after a longer time is reported as failed at once; a phase that failed sooner is
 * retried first.
 */
const SLOW_FAILURE_MS = 15_000;
const QUICK_FAILURES_TO_REPORT = 2;

type WireEvent = MessageInitShape<typeof InitEventSchema>;
type Failed = Extract<PhaseEvent, { kind: 'failed' }>;

/**
 * Streams the events of an init to its owner: first those after the last event that the owner has, then new
 * ones, with heartbeats while nothing happens. The stream ends with one result or one failure. The agent
 * keeps retrying after a reported failure.
 */
export async function* streamJob(
  options: {
    readonly job: InitJob;
    readonly phases: PhaseLog;
    readonly clock: Clock;
    readonly afterSequence: number;
  },
  signal: AbortSignal,
): AsyncGenerator<WireEvent> {
  const { job, phases, clock } = options;
  const attachedAt = phases.after(0).length;
  const failures = new Map<string, Failed[]>();
  let seen = options.afterSequence;
  using changes = combine({ length: phases.length, outcome: job.outcome }).watch();
  for (;;) {
    for (const recorded of phases.after(seen)) {
      seen = recorded.sequence;
      yield wireEvent(recorded);
      if (recorded.event.kind !== 'failed' || recorded.sequence <= attachedAt) continue;
      const series = [...(failures.get(recorded.event.phase) ?? []), recorded.event];
      failures.set(recorded.event.phase, series);
      const isSlow = tookMs(recorded, recorded.event.phase, phases) >= SLOW_FAILURE_MS;
      if (series.length < QUICK_FAILURES_TO_REPORT && !isSlow && recorded.event.retryable) continue;
      // The first failure names the cause; later ones may only be its consequences.
      yield failureEvent(recorded.timeMs, series[0] ?? recorded.event);
      return;
    }
    const outcome = job.outcome.peek();
    if (outcome.set && outcome.value !== undefined) {
      yield resultEvent(clock.nowMs(), outcome.value);
      return;
    }
    if (!(await changed(changes, clock, signal))) yield heartbeatEvent(clock.nowMs(), phases);
  }
}

/** How long the phase had run when it failed. */
function tookMs(failed: RecordedEvent, phase: string, phases: PhaseLog): number {
  const started = phases
    .after(0)
    .findLast(
      ({ sequence, event }) =>
        sequence < failed.sequence && event.kind === 'started' && event.phase === phase,
    );
  return started === undefined ? 0 : failed.timeMs - started.timeMs;
}

/** Whether something has changed before the next heartbeat is due. */
async function changed(changes: Watcher<unknown>, clock: Clock, signal: AbortSignal): Promise<boolean> {
  const limit = { what: 'init event', ms: HEARTBEAT_MS, clock, signal };
  return isDoneWithin(limit, (until) => changes.next(until));
}

function wireEvent({ sequence, timeMs, event }: RecordedEvent): WireEvent {
  const common = { sequence: BigInt(sequence), timeMs: BigInt(timeMs) };
  switch (event.kind) {
    case 'started':
      return { ...common, event: { case: 'phaseStarted', value: { phase: event.phase } } };
    case 'finished': {
      const value = { phase: event.phase, durationMs: BigInt(event.durationMs), already: event.already };
      return { ...common, event: { case: 'phaseFinished', value } };
    }
    case 'progress': {
      const { phase, text, lastError = '', done = 0, total = 0 } = event;
      const value = {
        phase,
        text,
        sinceMs: BigInt(event.sinceMs),
        lastError,
        done: BigInt(done),
        total: BigInt(total),
      };
      return { ...common, event: { case: 'progress', value } };
    }
    case 'failed':
      return {
        ...common,
        event: {
          case: 'log',
          value: { level: 'error', path: event.phase, message: `${event.code}: ${event.message}` },
        },
      };
  }
}

function failureEvent(timeMs: number, { code, message, fix, retryable, phase }: Failed): WireEvent {
  return {
    timeMs: BigInt(timeMs),
    event: { case: 'failure', value: { code, message, fix, retryable, phase } },
  };
}

function resultEvent(nowMs: number, outcome: InitOutcome): WireEvent {
  return { timeMs: BigInt(nowMs), event: { case: 'result', value: wireResult(outcome) } };
}

/** Converts the result to its protobuf message. */
export function wireResult(outcome: InitOutcome): MessageInitShape<typeof InitResultSchema> {
  const bytes = (text: string): Uint8Array => Buffer.from(text, 'utf8');
  return {
    clusterId: outcome.clusterId,
    nodeId: outcome.nodeId,
    nodeName: outcome.nodeName,
    clusterCaPem: bytes(outcome.clusterCaPem),
    ownerCertificatePem: bytes(outcome.ownerCertPem),
    kubernetesCaPem: bytes(outcome.kubernetesCaPem),
    kubernetesAdminCertificatePem: bytes(outcome.kubernetesAdminCertPem),
    kubernetesClientsCaPem: bytes(outcome.kubernetesClientsCaPem ?? ''),
    apiEndpoints: [...outcome.apiEndpoints],
    curatorEndpoints: [...outcome.curatorEndpoints],
    epoch: BigInt(outcome.epoch),
  };
}

/** A heartbeat that says what the newest phase is waiting for. */
function heartbeatEvent(nowMs: number, phases: PhaseLog): WireEvent {
  const newest = phases
    .after(0)
    .findLast(({ event }) => event.kind === 'progress' || event.kind === 'started');
  const what = newest?.event.kind === 'progress' ? newest.event.text : (newest?.event.phase ?? 'first phase');
  return {
    timeMs: BigInt(nowMs),
    event: { case: 'heartbeat', value: { waitingFor: what, sinceMs: BigInt(newest?.timeMs ?? nowMs) } },
  };
}
