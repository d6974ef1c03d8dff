import type { MessageInitShape } from '@bufbuild/protobuf';
import { fingerprintOfKey } from '../../../internal/pki/index.ts';
import type { AdmissionEventSchema } from '../../joinproto/gen/join_pb.js';
import type { AdmissionResult } from '../admission/admissions.ts';
import type { ProvenKey } from './read-hello.ts';

/** The delay after which a machine that waits for an operator may call again if its stream broke. */
const RETRY_AFTER_MS = 5_000;
/** Bounds of the delay after which a machine that was refused because of load may call again. */
const BUSY_MS = { least: 2_000, most: 5 * 60_000 };

/** An event of the stream `RequestAdmission`. */
export type AdmissionEventInit = MessageInitShape<typeof AdmissionEventSchema>;

export function resultEvent({ nodeId, pubKeyDer }: ProvenKey, result: AdmissionResult): AdmissionEventInit {
  if (result.kind === 'admitted') {
    const { assignment: grant, expiresMs } = result;
    const value = {
      joinId: nodeId,
      nodeName: grant.name,
      roles: [...grant.roles],
      expiresMs: BigInt(expiresMs),
    };
    return { event: { case: 'admitted', value } };
  }
  const { code, firstSeenMs } = result.record;
  return waiting(
    { nodeId, pubKeyDer },
    {
      code,
      message: 'an operator has to approve this machine',
      sinceMs: BigInt(firstSeenMs),
      retryAfterMs: BigInt(RETRY_AFTER_MS),
    },
  );
}

/**
 * The event for a machine that has to wait while other machines are served. `position` is 1 for the machine that is
 * served next.
 */
export function queuedEvent(key: ProvenKey, position: number, estimateMs: number, nowMs: number) {
  return waiting(key, {
    code: 'join-queued',
    message: 'other machines are served first',
    sinceMs: BigInt(nowMs),
    position,
    estimateMs: BigInt(estimateMs),
    retryAfterMs: BigInt(busyMs(estimateMs)),
  });
}

/** The event before a refusal because of load. It tells the machine when it may call again. */
export function busyEvent(key: ProvenKey, estimateMs: number, nowMs: number): AdmissionEventInit {
  return waiting(key, {
    code: 'join-busy',
    message: 'too many machines call at the same time; this one has to call again',
    sinceMs: BigInt(nowMs),
    retryAfterMs: BigInt(busyMs(estimateMs)),
  });
}

type Waiting = Extract<NonNullable<AdmissionEventInit['event']>, { case: 'waiting' }>['value'];

function waiting({ nodeId, pubKeyDer }: ProvenKey, details: Waiting): AdmissionEventInit {
  const value = { joinId: nodeId, fingerprint: fingerprintOfKey(pubKeyDer), ...details };
  return { event: { case: 'waiting', value } };
}

function busyMs(estimateMs: number): number {
  return Math.min(BUSY_MS.most, Math.max(BUSY_MS.least, estimateMs));
}
