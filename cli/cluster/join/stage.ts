import { EXIT_CODES, type ExitName } from '../../../internal/errors/index.ts';
import { EnrolmentEvent_Stage as Stage, type EnrolmentEvent } from '../../../initproto/gen/machine_pb.js';
import { roleNames } from '../../../internal/role/index.ts';
import { printable } from '../../../internal/printable/index.ts';

/** One event of a join, as text and as data. `code` is a message code that scripts can rely on. */
export interface StageView {
  readonly code: string;
  readonly text: string;
  /** The event for programs, as plain JSON. */
  readonly data: Readonly<Record<string, unknown>>;
  /** The final outcome; undefined while the machine makes progress. */
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

/** Converts an event of the machine. */
export function stageView(event: EnrolmentEvent): StageView {
  const { nodeId, fingerprint, clusterId, clusterName, nodeName, roles, problem, endpoints } = event;
  const stage = NAMES[event.stage];
  const phases = event.phases.map(({ name, state, text }) => ({ name, state, text }));
  const problemData = problem === undefined ? {} : { problem: { ...problem, $typeName: undefined } };
  return {
    code: `join-stage-${stage}`,
    text: linesOf(event)
      .map((line) => printable(line))
      .join('\n'),
    data: {
      stage,
      joinId: nodeId,
      fingerprint,
      ...given({ clusterId, clusterName, nodeName, code: event.code }),
      ...(roles.length === 0 ? {} : { roles: roleNames(roles) }),
      ...(endpoints.length === 0 ? {} : { endpoints }),
      ...(event.position === 0 ? {} : { position: event.position, estimateMs: Number(event.estimateMs) }),
      ...problemData,
      phases,
    },
    end: ENDS[event.stage],
  };
}

/** The exit code for a problem of the machine; an unknown name, of a newer agent, counts as refused. */
export function exitOf(name: string): ExitName {
  return Object.hasOwn(EXIT_CODES, name) ? (name as ExitName) : 'refused';
}

/** A line break in a text of the machine or of the cluster begins no line of its own. */
function linesOf(event: EnrolmentEvent): readonly string[] {
  const ids = [`  fingerprint ${event.fingerprint}`, `  join ID     ${event.nodeId}`];
  return [textOf(event), ...(event.stage === Stage.WAITING ? ids : [])];
}

function textOf(event: EnrolmentEvent): string {
  const { nodeName, problem, endpoints } = event;
  switch (event.stage) {
    case Stage.IDLE:
      return 'Waiting to be told which cluster to join.';
    case Stage.ASKING: {
      const why = problem === undefined ? '' : `; last error: ${problem.message}`;
      return `Requesting to join through ${endpoints.join(', ')}${why}`;
    }
    case Stage.WAITING: {
      const position = event.position === 0 ? '' : ` (position ${event.position})`;
      return `Waiting for cluster ${event.clusterName}${position}: ${event.message}`;
    }
    case Stage.REFUSED:
      return `Refused by ${endpoints.join(', ')}: ${problem?.message ?? ''}`;
    case Stage.ADMITTED:
      return `Admitted as ${nodeName}; requesting the join ticket`;
    case Stage.MEMBER: {
      const at = event.phases.filter(({ state }) => state === 'started').map(({ name }) => name);
      return `Node ${nodeName} is starting${at.length === 0 ? '' : `: ${at.join(', ')}`}`;
    }
    case Stage.RUNNING:
      return `Node ${nodeName} is running.`;
    case Stage.CREATING:
      return 'The machine is creating its own cluster.';
    case Stage.FAILED:
      return `Join failed: ${problem?.message ?? ''}`;
    case Stage.STAGE_UNSPECIFIED:
      return 'Unknown stage, perhaps of a newer agent.';
  }
}

function given(texts: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  return Object.fromEntries(Object.entries(texts).filter(([, text]) => text !== ''));
}
