import type { MessageInitShape } from '@bufbuild/protobuf';
import type { AttestedPeer } from '../../internal/atls/index.ts';
import { withTimeout } from '../../internal/cleanup/index.ts';
import type { Clock } from '../../internal/clock/index.ts';
import { Mailbox } from '../../internal/event/index.ts';
import {
  createClient,
  RemoteError,
  RpcChannel,
  type Client,
  type Upgrade,
} from '../../internal/rpc/index.ts';
import { decodeChallenge, encodeEnrolmentRequest } from '../../internal/attestation/enrolment/index.ts';
import {
  Join,
  type AdmissionEvent,
  type AdmissionRequestSchema,
  type Admitted,
  type DiskShare,
  type HelloSchema,
  type IssueDiskShareRequestSchema,
  type Ticket,
  type Waiting,
} from '../../joinservice/joinproto/gen/join_pb.js';
import type { MachineEvidence } from '../attest/index.ts';
import { JoinClientError } from './errors.ts';
import type { TicketKeys } from './ticket-keys.ts';
import { checkClock, verifyCluster, type ClusterTrust, type VerifiedCluster } from './verify-cluster.ts';

/** Label under which the machine signs a session with its key (join.proto, KeyProof). */
const KEY_LABEL = 'cluster/join/key/v1';
/**
 * Time limit for TCP, TLS, evidence of both ends (TPM requests are slow and queued), and the first message.
 */
const OPEN_MS = 60_000;
const TICKET_MS = 60_000;
/**
 * Limit of queued messages. One admission needs fewer: the introduction, and one answer to each challenge.
 */
const MAX_QUEUED = 64;

/** Ports (injected dependencies) of a session. */
export interface SessionPorts {
  readonly evidence: Pick<MachineEvidence, 'proveKey' | 'readEnrolment' | 'answerChallenge'>;
  readonly clock: Clock;
  /** Creates the TLS upgrade of one session. */
  readonly upgrade: () => Upgrade<AttestedPeer>;
}

/** The description of this machine, without its key and its TPM. */
export type Introduction = Omit<
  MessageInitShape<typeof HelloSchema>,
  '$typeName' | 'key' | 'enrolment' | 'nowMs'
>;

type Request = MessageInitShape<typeof AdmissionRequestSchema>;

/**
 * One attested connection to a node of a verified cluster. Before the verification the machine sends nothing
 * except evidence. The session never reconnects, because a signature for one session is not valid in another
 * one.
 */
export class JoinSession implements Disposable {
  readonly endpoint: string;
  readonly cluster: VerifiedCluster;
  readonly #ports: SessionPorts;
  readonly #parts: OpenParts;

  private constructor(endpoint: string, ports: SessionPorts, parts: OpenParts) {
    this.endpoint = endpoint;
    this.cluster = parts.cluster;
    this.#ports = ports;
    this.#parts = parts;
  }

  /** 64 bytes that only the two ends of this session know. */
  get session(): Uint8Array {
    return this.#parts.session;
  }

  /** Connects and verifies the cluster. */
  static async open(
    endpoint: string,
    ports: SessionPorts,
    options: { readonly trust: ClusterTrust; readonly signal: AbortSignal },
  ): Promise<JoinSession> {
    const channel = new RpcChannel({ endpoint, upgrade: usedOnce(endpoint, ports.upgrade()) });
    const admission = new AbortController();
    const outbox = new Mailbox<Request>(MAX_QUEUED);
    try {
      const what = `opening a session with ${endpoint}`;
      const limit = { what, ms: OPEN_MS, clock: ports.clock, signal: options.signal };
      const client = createClient(Join, channel);
      const sent = outbox.read(new AbortController().signal); // ends when the outbox is closed
      const events = client.requestAdmission(sent, { signal: admission.signal })[Symbol.asyncIterator]();
      const first = await withTimeout(limit, () => next(events));
      if (first.case !== 'cluster') throw unexpectedMessage(endpoint, 'cluster', first.case);
      const peer = channel.peer;
      if (peer?.kind !== 'attested') throw unexpectedMessage(endpoint, 'an attested session', 'none');
      const cluster = verifyCluster(first.value, peer.session, {
        trust: options.trust,
        nowMs: ports.clock.nowMs(),
      });
      const { session } = peer;
      const parts = { channel, client, events, outbox, admission, session, cluster };
      return new JoinSession(endpoint, ports, parts);
    } catch (error) {
      admission.abort(error);
      outbox.close();
      channel[Symbol.dispose]();
      throw error;
    }
  }

  /** Requests admission and waits for the decision, which may take days. */
  async requestAdmission(
    introduction: Introduction,
    onWaiting: (waiting: Waiting) => void,
    signal: AbortSignal,
  ): Promise<Admitted> {
    const { evidence, clock } = this.#ports;
    const { outbox, events } = this.#parts;
    const enrolment = await evidence.readEnrolment(signal);
    const hello = {
      ...introduction,
      key: this.#proof(),
      nowMs: BigInt(clock.nowMs()),
      enrolment: enrolment === undefined ? new Uint8Array() : encodeEnrolmentRequest(enrolment),
    };
    outbox.push({ message: { case: 'hello', value: hello } });
    for (;;) {
      const event = await this.#abortable(() => this.#verdict(next(events)), signal);
      if (event.case === 'challenge') await this.#answer(event.value.challenge, signal);
      else if (event.case === 'waiting') onWaiting(event.value);
      else if (event.case === 'admitted') {
        checkClock(this.cluster);
        return event.value;
      } else throw unexpectedMessage(this.endpoint, 'an answer', event.case);
    }
  }

  /** Requests the ticket of a join, or a new ticket for the member at an address. */
  issueTicket(
    of: { readonly joinId: string } | { readonly address: string },
    keys: TicketKeys,
    signal: AbortSignal,
  ): Promise<Ticket> {
    checkClock(this.cluster);
    this.#endAdmission();
    const { client } = this.#parts;
    const proved = { key: this.#proof(), keys };
    const call = { signal, timeoutMs: TICKET_MS };
    return 'joinId' in of
      ? client.issueJoinTicket({ ...of, ...proved }, call)
      : client.issueRejoinTicket({ ...of, ...proved }, call);
  }

  /**
   * Requests the share of the state disk. The clock of the machine may be wrong: the caller corrects its statement by the clock of the
   * cluster.
   */
  requestDiskShare(
    request: MessageInitShape<typeof IssueDiskShareRequestSchema>,
    signal: AbortSignal,
  ): Promise<DiskShare> {
    this.#endAdmission();
    return this.#parts.client.issueDiskShare(request, { signal, timeoutMs: TICKET_MS });
  }

  [Symbol.dispose](): void {
    this.#endAdmission();
    this.#parts.channel[Symbol.dispose]();
  }

  #endAdmission(): void {
    const { outbox, admission } = this.#parts;
    outbox.close();
    admission.abort(new JoinClientError('joinclient-session-closed', `session with ${this.endpoint} closed`));
  }

  #proof(): { readonly publicKey: Uint8Array; readonly signature: Uint8Array } {
    return this.#ports.evidence.proveKey(KEY_LABEL, this.#parts.session);
  }

  async #answer(challenge: Uint8Array, signal: AbortSignal): Promise<void> {
    const { evidence } = this.#ports;
    const { outbox, session } = this.#parts;
    const answer = await evidence.answerChallenge(decodeChallenge(challenge), session, signal);
    outbox.push({ message: { case: 'challengeAnswer', value: { answer } } });
  }

  /**
   * Replaces the clock error of the cluster, which contains no numbers, by an error with the difference in
   * seconds.
   */
  async #verdict<T>(answer: Promise<T>): Promise<T> {
    try {
      return await answer;
    } catch (error) {
      if (error instanceof RemoteError && error.code === 'join-clock-off') checkClock(this.cluster);
      throw error;
    }
  }

  /**
   * Runs a request on the stream. An abort also ends the stream, so that the join service does not wait for
   * this machine.
   */
  async #abortable<T>(work: () => Promise<T>, signal: AbortSignal): Promise<T> {
    const { admission } = this.#parts;
    const onAbort = (): void => admission.abort(signal.reason);
    signal.throwIfAborted();
    signal.addEventListener('abort', onAbort, { once: true });
    try {
      return await work();
    } finally {
      signal.removeEventListener('abort', onAbort);
    }
  }
}

interface OpenParts {
  readonly channel: RpcChannel<AttestedPeer>;
  readonly client: Client<typeof Join>;
  readonly events: AsyncIterator<AdmissionEvent, unknown>;
  readonly outbox: Mailbox<Request>;
  /** Ends the stream of the admission. */
  readonly admission: AbortController;
  /** 64 bytes that only the two ends of this session know. */
  readonly session: Uint8Array;
  readonly cluster: VerifiedCluster;
}

async function next(events: AsyncIterator<AdmissionEvent, unknown>): Promise<AdmissionEvent['event']> {
  const event = await events.next();
  if (event.done === true)
    throw new JoinClientError('joinclient-session-closed', 'the cluster closed the stream');
  return event.value.event;
}

/**
 * Allows one connection only: gRPC would reconnect by itself, and would send signatures of one session in
 * another one. Keeps the error of the first attempt.
 */
function usedOnce(endpoint: string, upgrade: Upgrade<AttestedPeer>): Upgrade<AttestedPeer> {
  let first: ReturnType<Upgrade<AttestedPeer>> | undefined;
  return async (socket, signal) => {
    if (first === undefined) return (first = upgrade(socket, signal));
    await first;
    throw new JoinClientError('joinclient-session-closed', `session with ${endpoint} closed`);
  };
}

function unexpectedMessage(endpoint: string, due: string, got: string | undefined): JoinClientError {
  return new JoinClientError('joinclient-protocol', `${endpoint} sent ${got ?? 'nothing'}, expected ${due}`);
}
