import type { MessageInitShape } from '@bufbuild/protobuf';
import { fingerprintOfKey } from '../../../internal/pki/index.ts';
import type { AdmissionEventSchema } from '../../joinproto/gen/join_pb.js';
import type { AdmissionResult } from '../admission/admissions.ts';
import type { ProvenKey } from './read-hello.ts';

/** When a machine that waits for an operator asks again if its stream breaks. */
const RETRY_AFTER_MS = 5_000;
/** Who was told to come back does not come back at once, whatever the estimate is. */
const BUSY_MS = { least: 2_000, most: 5 * 60_000 };

export type AdmissionEventInit = MessageInitShape<typeof AdmissionEventSchema>;

export function resultEvent(
  { nodeId, pubKeyDer }: ProvenKey,
  considered: AdmissionResult,
): AdmissionEventInit {
  if (considered.kind === 'admitted') {
    const { assignment: grant, expiresMs } = considered;
    const value = {
      joinId: nodeId,
      nodeName: grant.name,
      roles: [...grant.roles],
      expiresMs: BigInt(expiresMs),
    };
    return { event: { case: 'admitted', value } };
  }
  const { code, firstSeenMs } = considered.record;
  return waiting(
    { nodeId, pubKeyDer },
    {
      code,
      message: 'an operator has to decide about this machine',
      sinceMs: BigInt(firstSeenMs),
      retryAfterMs: BigInt(RETRY_AFTER_MS),
    },
  );
}

/** Others are served before this machine. `place`: 1 for who is next. */
export function queuedEvent(key: ProvenKey, place: number, estimateMs: number, nowMs: number) {
  return waiting(key, {
    code: 'join-queued',
    message: 'other machines are before this one',
    sinceMs: BigInt(nowMs),
    position: place,
    estimateMs: BigInt(estimateMs),
    retryAfterMs: BigInt(busyMs(estimateMs)),
  });
}

/** Goes before the refusal, and says when it is worth applicant again. */
export function busyEvent(key: ProvenKey, estimateMs: number, nowMs: number): AdmissionEventInit {
  return waiting(key, {
    code: 'join-busy',
    message: 'too many machines ask at the same time; this one is to ask again',
    sinceMs: BigInt(nowMs),
    retryAfterMs: BigInt(busyMs(estimateMs)),
  });
}

type Waiting = Extract<NonNullable<AdmissionEventInit['event']>, { case: 'waiting' }>['value'];

function waiting({ nodeId, pubKeyDer }: ProvenKey, told: Waiting): AdmissionEventInit {
  const value = { joinId: nodeId, fingerprint: fingerprintOfKey(pubKeyDer), ...told };
  return { event: { case: 'waiting', value } };
}

function busyMs(estimateMs: number): number {
  return Math.min(BUSY_MS.most, Math.max(BUSY_MS.least, estimateMs));
}
