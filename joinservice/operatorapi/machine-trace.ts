import type { MessageInitShape } from '@bufbuild/protobuf';
import { formatDuration } from '../../internal/clock/index.ts';
import { findCoded } from '../../internal/errors/index.ts';
import type { KeySpace } from '../../internal/etcd/index.ts';
import {
  digitsOf,
  MIN_PREFIX,
  nodeNameKey,
  records,
  type JoinRecord,
  type SlotPosition,
  type TraceFactRecord,
} from '../../internal/records/index.ts';
import type { Role } from '../../internal/role/index.ts';
import type { GetTraceResponseSchema } from '../curatorproto/gen/operatorapi_pb.js';
import { canonicalAddress } from '../../internal/endpoint/index.ts';
import { readTrace } from '../join/index.ts';
import { OperatorApiError } from './errors.ts';
import { factToWire, joinToWire } from './join-wire.ts';
import { findJoin, listJoins, readSlotQueue } from './find-join.ts';
import { refuseRemoved } from './find-removed.ts';
import type { OperatorApiParts } from './operator-api-parts.ts';
import { refusalsAbout } from './refusals-about.ts';

const ADDRESS = 'address:';

type TraceParts = Pick<OperatorApiParts, 'etcd' | 'clock' | 'ownerDocs'>;

/**
 * Everything that the cluster knows about the join of one machine.
 * @param subject the name or ID of a node, what `findJoin` finds, a name of a machine that asks to join, or the address of a machine whose
 * evidence was refused
 * @throws OperatorApiError `operatorapi-join-unknown`, `operatorapi-join-removed`, `operatorapi-join-readmitted`
 */
export async function machineTrace(
  parts: TraceParts,
  subject: string,
  signal: AbortSignal,
): Promise<MessageInitShape<typeof GetTraceResponseSchema>> {
  const { etcd } = parts;
  const address = canonicalAddress(subject);
  const nodeId =
    address === undefined
      ? await nodeIdNamed(etcd, subject, signal)
      : await onlyJoin(etcd, ({ claimed }) => claimed.address === address, signal);
  if (nodeId !== undefined) return traceOfNode(parts, nodeId, signal);
  const isAbout = address === undefined ? matchesPrefix(subject) : matchesAddress(address);
  const facts = await refusalsAbout(etcd, isAbout, signal);
  if (facts.length > 0) return { facts: facts.map(factToWire) };
  await refuseRemoved(parts, subject, signal);
  throw new OperatorApiError(
    'operatorapi-join-unknown',
    `node or machine ${JSON.stringify(subject.slice(0, 80))} not found`,
  );
}

async function traceOfNode({ etcd, clock }: TraceParts, nodeId: string, signal: AbortSignal) {
  const [trace, { record: join }, { record: node }, positions] = await Promise.all([
    readTrace(etcd, nodeId, signal),
    records.join.read(etcd, records.join.key(nodeId), signal),
    records.node.read(etcd, records.node.key(nodeId), signal),
    readSlotQueue(etcd, signal),
  ]);
  const position = positions.get(nodeId);
  const facts = [
    ...trace.facts,
    ...(await refusedSince(etcd, { trace: trace.facts, join }, signal)),
    // The first node has no request, and never waited.
    ...(join === undefined
      ? []
      : slotFacts(node?.roles ?? join.decision?.roles ?? [], position, clock.nowMs())),
  ];
  return {
    joinId: nodeId,
    nodeName: node?.name ?? '',
    facts: facts.map(factToWire),
    ...(join && { join: joinToWire(join, position) }),
  };
}

/** Refusals that are newer than the last accepted evidence of the machine. */
async function refusedSince(
  etcd: KeySpace,
  { trace, join }: { readonly trace: readonly TraceFactRecord[]; readonly join: JoinRecord | undefined },
  signal: AbortSignal,
): Promise<readonly TraceFactRecord[]> {
  if (join === undefined) return [];
  const passedMs = trace.findLast(({ side, name }) => side === 'cluster' && name === 'evidence')?.timeMs ?? 0;
  const isFrom = matchesAddress(join.claimed.address);
  const isAbout = (subject: string): boolean => subject === join.machine.identity || isFrom(subject);
  const facts = await refusalsAbout(etcd, isAbout, signal);
  return facts.filter(({ timeMs }) => timeMs > passedMs);
}

/**
 * The fact about the join slot: only the control plane that holds the slot may change the members of etcd. Empty
 * before the roles are known.
 */
function slotFacts(
  roles: readonly Role[],
  position: SlotPosition | undefined,
  timeMs: number,
): readonly TraceFactRecord[] {
  if (roles.length === 0) return [];
  const fact = {
    side: 'cluster',
    name: 'slot',
    expected: 'no other control plane is joining',
    fix: '',
    code: '',
    timeMs,
  } as const;
  if (position === undefined) {
    const actual = roles.includes('ConsensusMember')
      ? 'does not wait for another control plane'
      : 'only control planes wait for each other';
    return [{ ...fact, outcome: 'pass', actual }];
  }
  if (position.position === 0) return [{ ...fact, outcome: 'pass', actual: 'joining now' }];
  return [
    {
      ...fact,
      outcome: 'wait',
      actual: `position ${position.position}, about ${formatDuration(position.estimateMs)}`,
      fix: 'Wait: control planes join one after the other. `cluster node ls --joins` shows which one is joining now.',
    },
  ];
}

/** Finds the ID of a node, given its name or ID or what identifies its join request; undefined if there is none. */
async function nodeIdNamed(
  etcd: KeySpace,
  subject: string,
  signal: AbortSignal,
): Promise<string | undefined> {
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
    if (findCoded(error)?.code !== 'operatorapi-join-unknown') throw error;
  }
  return onlyJoin(
    etcd,
    ({ claimed, decision }) => [claimed.hostname, claimed.name, decision?.name].includes(subject),
    signal,
  );
}

/** The ID of the only machine whose request fits; undefined if several or none fit. What machines claim is not proved. */
async function onlyJoin(
  etcd: KeySpace,
  fits: (record: JoinRecord) => boolean,
  signal: AbortSignal,
): Promise<string | undefined> {
  const [only, ...others] = (await listJoins(etcd, signal)).filter(({ record }) => fits(record));
  return others.length === 0 ? only?.record.nodeId : undefined;
}

function matchesAddress(address: string): (subject: string) => boolean {
  return (subject) =>
    subject.startsWith(ADDRESS) && canonicalAddress(subject.slice(ADDRESS.length)) === address;
}

/**
 * Whether a refusal is about this machine. A node ID is a prefix of the fingerprint of its key. Prefixes of
 * addresses never match.
 */
function matchesPrefix(given: string): (subject: string) => boolean {
  const wanted = digitsOf(given);
  return (subject) => {
    if (subject.startsWith(ADDRESS)) return subject === given;
    const known = digitsOf(subject);
    return (
      Math.min(known.length, wanted.length) >= MIN_PREFIX &&
      (known.startsWith(wanted) || (subject.startsWith('node-') && wanted.startsWith(known)))
    );
  };
}
