import type { AttestedPeer } from '../../internal/atls/index.ts';
import { describeError, findCoded } from '../../internal/errors/index.ts';
import type { Logger } from '../../internal/logging/index.ts';
import type { Call, Handlers } from '../../internal/rpc/index.ts';
import type { Join } from '../joinproto/gen/join_pb.js';
import type { AdmissionEventInit } from './stream/admission-events.ts';
import { admissionStream, withWorkSlot, type AdmissionStreamParts } from './stream/admission-stream.ts';
import { JoinError } from './errors.ts';
import { evidenceDigestOf } from './machine/machine-identifier.ts';
import type { RefusalAudit } from './requests/refusal-audit.ts';
import type { Tickets } from './tickets/tickets.ts';

export interface JoinHandlerParts extends AdmissionStreamParts {
  readonly tickets: Tickets;
  readonly refusals: RefusalAudit;
  readonly log: Logger;
}

type JoinHandlers = Handlers<typeof Join, AttestedPeer>;

/** The contract of joining. Whoever gets here has shown evidence that the policy accepts, for this very session. */
export function joinHandlers(parts: JoinHandlerParts): JoinHandlers {
  const { tickets, workSlots: turnstile } = parts;
  return {
    requestAdmission: (requests, call) =>
      noted(parts, call, 'RequestAdmission', admissionStream(parts, requests, call)),
    issueJoinTicket: (request, call) =>
      notedCall(
        parts,
        call,
        'IssueJoinTicket',
        withWorkSlot(turnstile, call, () => tickets.join(request, call.peer, call.signal)),
      ),
    issueRejoinTicket: (request, call) =>
      notedCall(
        parts,
        call,
        'IssueRejoinTicket',
        withWorkSlot(turnstile, call, () => tickets.rejoin(request, call.peer, call.signal)),
      ),
  };
}

async function* noted(
  parts: JoinHandlerParts,
  call: Call<AttestedPeer>,
  method: string,
  events: AsyncIterable<AdmissionEventInit>,
): AsyncGenerator<AdmissionEventInit> {
  try {
    yield* events;
  } catch (error) {
    await note(parts, call, method, error);
    throw error;
  }
}

async function notedCall<T>(
  parts: JoinHandlerParts,
  call: Call<AttestedPeer>,
  method: string,
  answer: Promise<T>,
): Promise<T> {
  try {
    return await answer;
  } catch (error) {
    await note(parts, call, method, error);
    throw error;
  }
}

/** A refusal that no decision has written down yet goes into the audit here; the machine itself learns its code only. */
async function note(
  { refusals, log }: JoinHandlerParts,
  { peer, signal, address = '' }: Call<AttestedPeer>,
  method: string,
  error: unknown,
): Promise<void> {
  const coded = findCoded(error);
  if (signal.aborted || coded === undefined || coded.exit === 'unreachable' || coded.exit === 'internal') {
    if (!signal.aborted) log.warn('a machine could not be served', { method, error });
    return;
  }
  log.info('a machine was refused', { method, error });
  if (error instanceof JoinError && error.details['noted'] === true) return;
  const evidence = {
    evidenceDigest: evidenceDigestOf(peer),
    identity: `${peer.machineIdentity.kind}:${peer.machineIdentity.id}`,
  };
  const detail = { reason: describeError(error).slice(0, 512), ...evidence };
  await refusals
    .write({ method, subject: evidence.identity, code: coded.code, detail, address }, signal)
    .catch((cause: unknown) => log.error('a refusal could not be written down', { error: cause }));
}
