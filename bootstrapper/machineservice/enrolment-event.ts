import type { MessageInitShape } from '@bufbuild/protobuf';
import { describeError } from '../../internal/errors/index.ts';
import {
  type EnrolmentEvent,
  EnrolmentEvent_Stage as Stage,
  type EnrolmentEventSchema,
  type ProblemSchema,
} from '../../initproto/gen/machine_pb.js';
import type { EnrolmentStatus } from '../enrolment/index.ts';
import type { Membership } from '../membership/index.ts';
import type { JoinProblem, JoinStatus } from '../joinclient/index.ts';
import type { RecordedEvent } from '../phases/index.ts';

type Event = Exclude<MessageInitShape<typeof EnrolmentEventSchema>, EnrolmentEvent>;
type Problem = MessageInitShape<typeof ProblemSchema>;

/** The facts from which an event is built. */
export interface EnrolmentFacts {
  readonly enrolment: EnrolmentStatus<Membership>;
  readonly join: JoinStatus;
  /** Whether the workloads of this node's roles run. */
  readonly isRunning: boolean;
  readonly roles: readonly string[];
  /** Events of the phases, oldest first. */
  readonly phases: readonly RecordedEvent[];
  readonly fingerprint: string;
  readonly nodeId: string;
  readonly nowMs: number;
}

/** The state of the enrolment as an event of the Machine contract. Pure. */
export function enrolmentEvent(facts: EnrolmentFacts): Event {
  const { fingerprint, nodeId, nowMs } = facts;
  return { fingerprint, nodeId, timeMs: BigInt(nowMs), ...stageOf(facts), phases: phasesOf(facts.phases) };
}

function stageOf(facts: EnrolmentFacts): Partial<Event> {
  const { enrolment } = facts;
  switch (enrolment.state) {
    case 'New':
    case 'Joining':
    case 'Resuming':
      return joiningStage(facts.join);
    case 'CreatingCluster':
      return { stage: Stage.CREATING };
    case 'Running': {
      const { clusterId, clusterName, nodeName } = enrolment.membership;
      const stage = facts.isRunning ? Stage.RUNNING : Stage.MEMBER;
      return { stage, clusterId, clusterName, nodeName, roles: [...facts.roles] };
    }
    case 'Failed': {
      const { reason } = enrolment;
      const { code, fix, exit, retryable } = reason;
      return { stage: Stage.FAILED, problem: { code, fix, exit, retryable, message: describeError(reason) } };
    }
  }
}

function joiningStage(join: JoinStatus): Partial<Event> {
  switch (join.kind) {
    case 'idle':
      return { stage: Stage.IDLE };
    case 'asking': {
      const problem = join.lastError === undefined ? {} : { problem: problemOf(join.lastError, true) };
      return { stage: Stage.ASKING, endpoints: [...join.endpoints], ...problem };
    }
    case 'waiting': {
      const { clusterId, clusterName, code, message, position, estimateMs, endpoint } = join;
      const queue = { position, estimateMs: BigInt(estimateMs) };
      return { stage: Stage.WAITING, clusterId, clusterName, code, message, endpoints: [endpoint], ...queue };
    }
    case 'refused':
      return { stage: Stage.REFUSED, endpoints: [join.endpoint], problem: problemOf(join.problem, false) };
    case 'admitted':
    case 'joined': {
      const { clusterId, nodeName } = join;
      return { stage: Stage.ADMITTED, clusterId, nodeName };
    }
  }
}

function problemOf({ code, message, fix, exit }: JoinProblem, retryable: boolean): Problem {
  return { code, message, fix, exit, retryable };
}

/** The newest state of each phase, in the order in which the phases started. */
function phasesOf(events: readonly RecordedEvent[]): NonNullable<Event['phases']> {
  const newest = new Map<string, { name: string; state: string; text: string }>();
  for (const { event } of events) {
    const text = event.kind === 'progress' ? event.text : event.kind === 'failed' ? event.message : '';
    const state = event.kind === 'progress' ? 'started' : event.kind;
    newest.set(event.phase, { name: event.phase, state, text });
  }
  return [...newest.values()];
}
