import { EXIT_CODES, type ExitName } from '../../../internal/errors/index.ts';
import { EnrolmentEvent_Stage as Stage, type EnrolmentEvent } from '../../../initproto/gen/machine_pb.js';
import { printable } from '../../../internal/printable/index.ts';

/** One event for people and programs; `code` is the message's name, stable for scripts. */
export interface StageView {
  readonly code: string;
  readonly text: string;
  /** For programs: plain JSON. */
  readonly data: Readonly<Record<string, unknown>>;
  /** Whether nothing more will come of waiting. */
  readonly end: 'running' | 'member' | 'refused' | 'failed' | undefined;
}

const NAMES: Readonly<Record<Stage, string>> = {
  [Stage.STAGE_UNSPECIFIED]: 'unknown',
  [Stage.IDLE]: 'idle',
  [Stage.ASKING]: 'asking',
  [Stage.WAITING]: 'waiting',
  [Stage.REFUSED]: 'refused',
  [Stage.ADMITTED]: 'admitted',
  [Stage.MEMBER]: 'member',
  [Stage.RUNNING]: 'running',
  [Stage.CREATING]: 'creating',
  [Stage.FAILED]: 'failed',
};

const ENDS: Partial<Readonly<Record<Stage, StageView['end']>>> = {
  [Stage.RUNNING]: 'running',
  [Stage.MEMBER]: 'member',
  [Stage.REFUSED]: 'refused',
  [Stage.FAILED]: 'failed',
};

/** What to show of an event. Pure. */
export function stageView(event: EnrolmentEvent): StageView {
  const { nodeId, fingerprint, clusterId, clusterName, nodeName, roles, problem, endpoints } = event;
  const stage = NAMES[event.stage];
  const phases = event.phases.map(({ name, state, text }) => ({ name, state, text }));
  const said = problem === undefined ? {} : { problem: { ...problem, $typeName: undefined } };
  return {
    code: `join-stage-${stage}`,
    text: printable(textOf(event)),
    data: {
      stage,
      joinId: nodeId,
      fingerprint,
      ...given({ clusterId, clusterName, nodeName, code: event.code }),
      ...(roles.length === 0 ? {} : { roles }),
      ...(endpoints.length === 0 ? {} : { endpoints }),
      ...(event.position === 0 ? {} : { position: event.position, estimateMs: Number(event.estimateMs) }),
      ...said,
      phases,
    },
    end: ENDS[event.stage],
  };
}

/** The exit of a command that ends with a problem; an unknown name of a newer machine is a refusal. */
export function exitOf(name: string): ExitName {
  return Object.hasOwn(EXIT_CODES, name) ? (name as ExitName) : 'refused';
}

function textOf(event: EnrolmentEvent): string {
  const { nodeName, problem, endpoints } = event;
  switch (event.stage) {
    case Stage.IDLE:
      return 'Nobody has said yet where the cluster is.';
    case Stage.ASKING: {
      const why = problem === undefined ? '' : `; so far: ${problem.message}`;
      return `Asking ${endpoints.join(', ')}${why}`;
    }
    case Stage.WAITING: {
      const place = event.position === 0 ? '' : ` (place ${event.position})`;
      return `Cluster ${event.clusterName} lets this machine wait${place}: ${event.message}\n  fingerprint ${event.fingerprint}\n  join id     ${event.nodeId}`;
    }
    case Stage.REFUSED:
      return `Refused by ${endpoints.join(', ')}: ${problem?.message ?? ''}`;
    case Stage.ADMITTED:
      return `Let in as ${nodeName}; taking the ticket`;
    case Stage.MEMBER: {
      const at = event.phases.filter(({ state }) => state === 'started').map(({ name }) => name);
      return `Member ${nodeName}: ${at.length === 0 ? 'starting' : at.join(', ')}`;
    }
    case Stage.RUNNING:
      return `Node ${nodeName} runs.`;
    case Stage.CREATING:
      return 'This machine is creating a cluster of its own.';
    case Stage.FAILED:
      return `Enrolment failed: ${problem?.message ?? ''}`;
    case Stage.STAGE_UNSPECIFIED:
      return 'The agent says something that this program does not know.';
  }
}

function given(texts: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  return Object.fromEntries(Object.entries(texts).filter(([, text]) => text !== ''));
}
