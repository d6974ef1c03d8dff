import type { MessageInitShape } from '@bufbuild/protobuf';
import type { Clock } from '../../internal/clock/index.ts';
import { findCoded } from '../../internal/errors/index.ts';
import type { KeySpace } from '../../internal/etcd/index.ts';
import {
  nodeNameKey,
  records,
  type JoinRecord,
  type NodeRecord,
  type SlotPosition,
  type TraceFactRecord,
} from '../../internal/records/index.ts';
import type { GetTraceResponseSchema } from '../curatorproto/gen/operatorapi_pb.js';
import { canonicalAddress } from '../evidence/index.ts';
import { readTrace } from '../join/index.ts';
import { OperatorApiError } from './errors.ts';
import { factToWire, joinToWire } from './join-wire.ts';
import { findJoin, listJoins, readSlotQueue } from './find-join.ts';
import { refusalsAbout } from './refusals-about.ts';

const ADDRESS = 'address:';
/** Less of a name than this would mean too many. */
const MIN_BEGINNING = 8;

interface TraceParts {
  readonly etcd: KeySpace;
  readonly clock: Clock;
}

/**
 * What the cluster knows of one machine's way in. `subject`: a node's name or id, what finds a request, or the address of
 * a machine whose evidence did not pass, of which there is nothing but refusals.
 */
export async function machineTrace(
  parts: TraceParts,
  subject: string,
  signal: AbortSignal,
): Promise<MessageInitShape<typeof GetTraceResponseSchema>> {
  const { etcd } = parts;
  const address = canonicalAddress(subject);
  const nodeId = address === undefined ? await named(etcd, subject, signal) : await at(etcd, address, signal);
  if (nodeId !== undefined) return whole(parts, nodeId, signal);
  const isMeant = address === undefined ? beginning(subject) : from(address);
  const facts = await refusalsAbout(etcd, isMeant, signal);
  if (facts.length > 0) return { facts: facts.map(factToWire) };
  throw new OperatorApiError(
    'operatorapi-join-unknown',
    `no node and no machine ${JSON.stringify(subject.slice(0, 80))} found`,
  );
}

async function whole({ etcd, clock }: TraceParts, nodeId: string, signal: AbortSignal) {
  const [trace, joinEntry, nodeEntry, turns] = await Promise.all([
    readTrace(etcd, nodeId, signal),
    etcd.get(records.join.key(nodeId), { signal }),
    etcd.get(records.node.key(nodeId), { signal }),
    readSlotQueue(etcd, signal),
  ]);
  const join = joinEntry && records.join.decode(joinEntry.key, joinEntry.value);
  const node = nodeEntry && records.node.decode(nodeEntry.key, nodeEntry.value);
  const turn = turns.get(nodeId);
  const facts = [
    ...trace.facts,
    ...(await refusedSince(etcd, { trace: trace.facts, join }, signal)),
    ...slotFacts({ join, node, turn }, clock.nowMs()),
  ];
  return {
    joinId: nodeId,
    nodeName: node?.name ?? '',
    facts: facts.map(factToWire),
    ...(join && { join: joinToWire(join, turn) }),
  };
}

/** A machine that had passed once and does not any more: what is newer than what its trace says about its evidence. */
async function refusedSince(
  etcd: KeySpace,
  { trace, join }: { readonly trace: readonly TraceFactRecord[]; readonly join: JoinRecord | undefined },
  signal: AbortSignal,
): Promise<readonly TraceFactRecord[]> {
  if (join === undefined) return [];
  const passedMs = trace.findLast(({ side, name }) => side === 'cluster' && name === 'evidence')?.timeMs ?? 0;
  const isFrom = from(join.claimed.address);
  const facts = await refusalsAbout(
    etcd,
    (subject) => subject === join.machine.identity || isFrom(subject),
    signal,
  );
  return facts.filter(({ timeMs }) => timeMs > passedMs);
}

/** Control planes come in one after the other. Nothing while nobody has said what the machine is to be. */
function slotFacts(
  machine: {
    readonly join: JoinRecord | undefined;
    readonly node: NodeRecord | undefined;
    readonly turn: SlotPosition | undefined;
  },
  timeMs: number,
): readonly TraceFactRecord[] {
  const { join, node, turn } = machine;
  const roles = node?.roles ?? join?.decision?.roles;
  if (roles === undefined || roles.length === 0) return [];
  const fact = { side: 'cluster', name: 'slot', expected: 'its turn', fix: '', code: '', timeMs } as const;
  if (turn === undefined) {
    const isControlPlane = roles.includes('ConsensusMember');
    const actual = isControlPlane ? 'it waits for none' : 'workers need none';
    return [{ ...fact, outcome: 'pass', actual }];
  }
  if (turn.position === 0) return [{ ...fact, outcome: 'pass', actual: 'it is its turn' }];
  return [
    {
      ...fact,
      outcome: 'wait',
      actual: `place ${turn.position}, about ${Math.ceil(turn.estimateMs / 1000)} s`,
      fix: 'Nothing: control planes come in one after the other. Where the first of them does not get on, `cluster node ls --joins` names it.',
    },
  ];
}

/** A node's name or id, or whatever finds a request. */
async function named(etcd: KeySpace, subject: string, signal: AbortSignal): Promise<string | undefined> {
  if (!subject.includes('/')) {
    const [name, node] = await Promise.all([
      etcd.get(nodeNameKey(subject), { signal }),
      etcd.get(records.node.key(subject), { signal }),
    ]);
    if (name !== undefined) return new TextDecoder().decode(name.value);
    if (node !== undefined) return subject;
  }
  try {
    return (await findJoin(etcd, subject, signal)).record.nodeId;
  } catch (error) {
    if (findCoded(error)?.code === 'operatorapi-join-unknown') return undefined;
    throw error;
  }
}

/** The machine that says it is at this address. Where several do, or none, the address alone counts. */
async function at(etcd: KeySpace, address: string, signal: AbortSignal): Promise<string | undefined> {
  const all = await listJoins(etcd, signal);
  const [only, ...others] = all.filter(({ record }) => record.claimed.address === address);
  return others.length === 0 ? only?.record.nodeId : undefined;
}

function from(address: string): (subject: string) => boolean {
  return (subject) =>
    subject.startsWith(ADDRESS) && canonicalAddress(subject.slice(ADDRESS.length)) === address;
}

/** A fingerprint begins like the id of its node; the beginning of an address means nothing. */
function beginning(given: string): (subject: string) => boolean {
  const bare = (text: string): string => text.replace(/^[a-z0-9-]+:|^node-/, '');
  const wanted = bare(given);
  return (subject) => {
    if (subject.startsWith(ADDRESS)) return subject === given;
    const known = bare(subject);
    return (
      Math.min(known.length, wanted.length) >= MIN_BEGINNING &&
      (known.startsWith(wanted) || (subject.startsWith('node-') && wanted.startsWith(known)))
    );
  };
}
