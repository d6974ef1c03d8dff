import type { AttestedPeer } from '../../internal/atls/index.ts';
import { describeError, findCoded, type CodedError } from '../../internal/errors/index.ts';
import type { Logger } from '../../internal/logging/index.ts';
import { RemoteError, sourcePathOf, type Call, type Handlers } from '../../internal/rpc/index.ts';
import type { Join } from '../joinproto/gen/join_pb.js';
import type { AdmissionEventInit } from './stream/admission-events.ts';
import { admissionStream, withWorkSlot, type AdmissionStreamParts } from './stream/admission-stream.ts';
import { JoinError } from './errors.ts';
import { evidenceDigestOf } from './machine/machine-identifier.ts';
import type { RefusalAudit } from './requests/refusal-audit.ts';
import type { DiskShares } from './disk-shares.ts';
import type { Tickets } from './tickets/tickets.ts';

/** Dependencies of the handlers of the contract `Join`. */
export interface JoinHandlerParts extends AdmissionStreamParts {
  readonly tickets: Tickets;
  readonly diskShares: DiskShares;
  readonly refusals: RefusalAudit;
  readonly log: Logger;
}

type JoinHandlers = Handlers<typeof Join, AttestedPeer>;

/** Handlers of the contract `Join`. Attested TLS has already verified the evidence of the caller for this session. */
export function joinHandlers(parts: JoinHandlerParts): JoinHandlers {
  const { tickets, workSlots, diskShares } = parts;
  return {
    requestAdmission: (requests, call) =>
      auditedStream(parts, call, 'RequestAdmission', admissionStream(parts, requests, call)),
    issueJoinTicket: (request, call) =>
      auditedCall(
        parts,
        call,
        'IssueJoinTicket',
        withWorkSlot(workSlots, call, () => tickets.join(request, call.peer, call.signal)),
      ),
    issueRejoinTicket: (request, call) =>
      auditedCall(
        parts,
        call,
        'IssueRejoinTicket',
        withWorkSlot(workSlots, call, () => tickets.rejoin(request, call.peer, call.signal)),
      ),
    issueDiskShare: (request, call) =>
      auditedCall(
        parts,
        call,
        'IssueDiskShare',
        withWorkSlot(workSlots, call, () => diskShares.issue(request, call)),
      ),
  };
}

async function* auditedStream(
  parts: JoinHandlerParts,
  call: Call<AttestedPeer>,
  method: string,
  events: AsyncIterable<AdmissionEventInit>,
): AsyncGenerator<AdmissionEventInit> {
  try {
    yield* events;
  } catch (error) {
    await auditRefusal(parts, call, method, error);
    throw error;
  }
}

async function auditedCall<T>(
  parts: JoinHandlerParts,
  call: Call<AttestedPeer>,
  method: string,
  answer: Promise<T>,
): Promise<T> {
  try {
    return await answer;
  } catch (error) {
    await auditRefusal(parts, call, method, error);
    throw error;
  }
}

/** Writes a refusal to the audit log unless its decision already did. The machine itself learns only the code. */
async function auditRefusal(
  { refusals, log }: JoinHandlerParts,
  { peer, signal, address = '', source = sourcePathOf(address) }: Call<AttestedPeer>,
  method: string,
  error: unknown,
): Promise<void> {
  const coded = findCoded(error);
  if (signal.aborted || coded === undefined || !isRefusal(coded)) {
    if (!signal.aborted) log.warn('serving a machine failed', { method, error });
    return;
  }
  log.info('machine refused', { method, error });
  if (error instanceof JoinError && error.details['isAudited'] === true) return;
  const evidence = {
    evidenceDigest: evidenceDigestOf(peer),
    identity: `${peer.machineIdentity.kind}:${peer.machineIdentity.id}`,
  };
  const detail = { reason: describeError(error).slice(0, 512), ...evidence };
  await refusals
    .write({ method, subject: evidence.identity, code: coded.code, detail, source }, signal)
    .catch((cause: unknown) => log.error('writing a refusal to the audit log failed', { error: cause }));
}

/**
 * Whether an error is about the machine. A signer that lacks a key or a secret refuses nobody: machines ask again for as long as that lasts,
 * and would fill the log of requests.
 */
function isRefusal(error: CodedError): boolean {
  if (error instanceof RemoteError && error.exit === 'precondition') return false;
  return error.exit !== 'unreachable' && error.exit !== 'internal';
}
