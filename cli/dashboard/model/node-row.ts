import { roleNames } from '../../../internal/role/index.ts';
import { describeDisk, nodeStatusText } from '../../cluster/index.ts';
import { describeQueuePosition, verdictAt, VERDICT_NAMES, type JoinView } from '../../nodes/index.ts';
import type { NodeUsage, ObservedNode, UsageAnswer } from './observations.ts';

/** How good something is: `idle` is neither good nor bad. */
export type Tone = 'good' | 'warning' | 'bad' | 'idle';

/** A member, or a machine that has asked to join. */
export interface NodeRow {
  readonly kind: 'member' | 'join';
  readonly id: string;
  readonly name: string;
  readonly tone: Tone;
  /** "Healthy", "NotResponding", or the state of a join request. */
  readonly status: string;
  readonly roles: readonly string[];
  /** "running", "starting", "joining", … */
  readonly phase: string;
  /** What the phase waits for; empty if it waits for nothing. */
  readonly waitsFor: string;
  readonly address: string;
  readonly version: string;
  readonly agentVersion: string;
  readonly createdMs: number;
  /** How its disks are kept; undefined if its agent does not tell. */
  readonly disk?: string | undefined;
  readonly certificates: ObservedNode['certificates'];
  readonly runnables: ObservedNode['runnables'];
  readonly usage?: NodeUsage;
  /** Why its metrics could not be read. */
  readonly usageError?: string;
}

/** Why a runnable waits, if that is how it is meant to be: it has nothing to do on this node, or not yet. */
const IDLE = /^(?:idle: |next backup |stopping|removed )/;

/** What else is known about a member. */
interface NodeContext {
  readonly usage: UsageAnswer | undefined;
  /** Why a key rotation waits for this node. */
  readonly awaited: string | undefined;
}

/** The row of a member at `nowMs`. */
export function memberRow(observed: ObservedNode, { usage, awaited }: NodeContext, nowMs: number): NodeRow {
  const runnables = observed.runnables.map((each) => ({ ...each, verdict: verdictAt(each, nowMs) }));
  const node = { ...observed, runnables };
  const { phase, waitsFor, tone } = phaseOf(node, awaited);
  return {
    kind: 'member',
    ...{ id: node.id, name: node.name, tone, status: nodeStatusText(node), phase, waitsFor },
    roles: roleNames(node.roles),
    ...{ address: node.address, version: node.kubernetesVersion, agentVersion: node.agentVersion },
    ...{ createdMs: node.createdMs, disk: describeDisk(node) },
    ...{ certificates: node.certificates, runnables },
    ...(usage?.ok === true && { usage: usage.value }),
    ...(usage?.ok === false && { usageError: usage.error }),
  };
}

interface Phase {
  readonly phase: string;
  readonly waitsFor: string;
  readonly tone: Tone;
}

/** What a member is doing: its most severe trouble, else what it waits for. */
function phaseOf(node: ObservedNode, awaited: string | undefined): Phase {
  const { state, health, partsNotReady, runnables, lastError } = node;
  if (state !== 'up') return { phase: state, waitsFor: lastError ?? '', tone: 'idle' };
  if (health === 'silent') return { phase: 'silent', waitsFor: 'a heartbeat of its agent', tone: 'bad' };
  if (health !== 'healthy') return { phase: 'unknown', waitsFor: 'its first heartbeat', tone: 'warning' };
  for (const verdict of ['failed', 'stuck'] as const) {
    const found = runnables.find((each) => each.verdict === verdict);
    if (found === undefined) continue;
    const why = found.lastError ?? found.why;
    return { phase: verdict, waitsFor: `${shortPath(found)}${why === '' ? '' : `: ${why}`}`, tone: 'bad' };
  }
  const [part] = partsNotReady;
  if (part !== undefined)
    return { phase: 'not ready', waitsFor: `${part.name}: ${part.why}`, tone: 'warning' };
  if (lastError !== undefined) return { phase: 'running', waitsFor: lastError, tone: 'warning' };
  const starting = runnables.find(({ verdict, why }) => verdict === 'starts' || why === 'starting');
  if (starting !== undefined)
    return { phase: VERDICT_NAMES['starts'] ?? '', waitsFor: shortPath(starting), tone: 'warning' };
  if (awaited !== undefined) return { phase: 'rotating keys', waitsFor: awaited, tone: 'warning' };
  const waiting = runnables.find(({ verdict, why }) => verdict === 'idle' && !IDLE.test(why));
  if (waiting !== undefined)
    return { phase: 'waiting', waitsFor: `${shortPath(waiting)}: ${waiting.why}`, tone: 'good' };
  return { phase: 'running', waitsFor: '', tone: 'good' };
}

/** All runnables are below the root. */
function shortPath({ path }: { readonly path: string }): string {
  return path.replace(/^root\./, '');
}

/** The row of a machine that has asked to join and is no member; undefined once it is one. */
export function joinRow(join: JoinView): NodeRow | undefined {
  if (join.state === 'joined') return undefined;
  const queue = join.turn === undefined ? undefined : describeQueuePosition(join.turn);
  const why = [join.code, join.message].filter((each) => each !== '').join(': ');
  return {
    kind: 'join',
    ...{ id: join.joinId, name: join.name || join.wantedName || join.hostname || join.address },
    tone: join.state === 'refused' ? 'bad' : 'warning',
    status: `Join ${join.state}`,
    roles: join.roles,
    phase: join.state === 'approved' ? 'joining' : 'asks to join',
    waitsFor: queue ?? (why || (join.state === 'approved' ? 'its ticket' : 'a decision')),
    ...{ address: join.address, version: '', agentVersion: '', createdMs: join.firstSeenMs },
    ...{ certificates: [], runnables: [] },
  };
}
