import type { MessageInitShape } from '@bufbuild/protobuf';
import { fingerprintOfKey } from '../../internal/pki/index.ts';
import type {
  JoinRecord,
  JoinRecordState,
  SlotPosition,
  TraceFactRecord,
} from '../../internal/records/index.ts';
import { ROLES } from '../../internal/role/index.ts';
import { rolesToWire } from '../curator/index.ts';
import {
  JoinState,
  TraceFact_Outcome,
  type JoinSchema,
  type TraceFactSchema,
} from '../curatorproto/gen/operatorapi_pb.js';

const STATES: Readonly<Record<JoinRecordState, JoinState>> = {
  pending: JoinState.PENDING,
  approved: JoinState.APPROVED,
  refused: JoinState.REFUSED,
  joined: JoinState.JOINED,
};
const OUTCOMES: Readonly<Record<TraceFactRecord['outcome'], TraceFact_Outcome>> = {
  pass: TraceFact_Outcome.PASS,
  warn: TraceFact_Outcome.WARN,
  fail: TraceFact_Outcome.FAIL,
  wait: TraceFact_Outcome.WAIT,
};

/**
 * Converts a join request to its message in the contract.
 * @param queue the position of a control plane in the queue for changing the members of etcd
 */
export function joinToWire(record: JoinRecord, queue?: SlotPosition): MessageInitShape<typeof JoinSchema> {
  const { machine, claimed, decision } = record;
  return {
    joinId: record.nodeId,
    state: STATES[record.state],
    fingerprint: fingerprintOf(record),
    identity: machine.identity,
    identityProof: machine.proof,
    variant: machine.variant,
    profile: machine.profile,
    hostname: claimed.hostname,
    address: claimed.address,
    wantedName: claimed.name,
    wantedRoles: [...rolesToWire(ROLES.filter((role) => claimed.roles.includes(role)))],
    agentVersion: claimed.agentVersion,
    clockOffsetMs: BigInt(claimed.clockOffsetMs),
    ...(decision === undefined
      ? {}
      : {
          name: decision.name,
          roles: [...rolesToWire(decision.roles)],
          labels: decision.labels,
          taints: decision.taints ?? [],
          decidedBy: decision.by,
          decidedMs: BigInt(decision.timeMs),
          expiresMs: BigInt(decision.expiresMs),
        }),
    code: record.code,
    message: record.message,
    firstSeenMs: BigInt(record.firstSeenMs),
    lastSeenMs: BigInt(record.lastSeenMs),
    attempts: BigInt(record.attempts),
    ...(queue === undefined
      ? {}
      : { queue: { position: queue.position, estimateMs: BigInt(queue.estimateMs) } }),
  };
}

/** The fingerprint of the machine's key, as the console of the machine shows it. */
export function fingerprintOf({ pubKey }: JoinRecord): string {
  return fingerprintOfKey(Buffer.from(pubKey, 'base64'));
}

/** Whether a request has one of these states; no states match all. */
export function isWantedState(record: JoinRecord, wanted: readonly JoinState[]): boolean {
  return wanted.length === 0 || wanted.includes(STATES[record.state]);
}

/** Converts a fact of a trace to its message in the contract. */
export function factToWire(fact: TraceFactRecord): MessageInitShape<typeof TraceFactSchema> {
  return { ...fact, outcome: OUTCOMES[fact.outcome], timeMs: BigInt(fact.timeMs) };
}
