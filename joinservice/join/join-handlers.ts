import type { MessageInitShape } from '@bufbuild/protobuf';
import type { AttestedPeer } from '../../internal/atls/index.ts';
import { TimeoutError, withTimeout } from '../../internal/cleanup/index.ts';
import type { Clock } from '../../internal/clock/index.ts';
import { describeError, findCoded } from '../../internal/errors/index.ts';
import type { Logger } from '../../internal/logging/index.ts';
import { fingerprintOfKey } from '../../internal/pki/index.ts';
import type { Call, Handlers } from '../../internal/rpc/index.ts';
import type { AdmissionEventSchema, AdmissionRequest, Hello, Join } from '../joinproto/gen/join_pb.js';
import type { Admissions, Asking, Considered } from './admissions.ts';
import type { ClusterFacts } from './cluster-facts.ts';
import { JoinError } from './errors.ts';
import { readHello } from './hello.ts';
import type { JoinFeed } from './join-feed.ts';
import { checkOwnKey, digestOf, type MachineIdentifier } from './machine.ts';
import type { Tickets } from './tickets.ts';
import type { Turnstile } from './turnstile.ts';

/** For a machine to say the next thing; its TPM may take a second. */
const TURN_MS = 60_000;
/** A waiting machine is told so again after this time, so that it knows that somebody is still there. */
const REMIND_MS = 60_000;
const RETRY_AFTER_MS = 5_000;
/** Streams of machines that wait, at one node. */
const MAX_WAITING = 2048;

export interface JoinHandlerParts {
  readonly facts: ClusterFacts;
  readonly identifier: MachineIdentifier;
  readonly admissions: Admissions;
  readonly tickets: Tickets;
  readonly feed: JoinFeed;
  /** Before whatever asks etcd or the signer. */
  readonly turnstile: Turnstile;
  readonly clock: Clock;
  readonly log: Logger;
}

type Event = MessageInitShape<typeof AdmissionEventSchema>;
type JoinHandlers = Handlers<typeof Join, AttestedPeer>;

/** The contract of joining. Whoever gets here has shown evidence that the policy accepts, for this very session. */
export function joinHandlers(parts: JoinHandlerParts): JoinHandlers {
  return {
    requestAdmission: (requests, call) =>
      noted(parts, call, 'RequestAdmission', admit(parts, requests, call)),
    issueJoinTicket: (request, call) =>
      notedCall(
        parts,
        call,
        'IssueJoinTicket',
        inTurn(parts, call.signal, () => parts.tickets.join(request, call.peer, call.signal)),
      ),
    issueRejoinTicket: (request, call) =>
      notedCall(
        parts,
        call,
        'IssueRejoinTicket',
        inTurn(parts, call.signal, () => parts.tickets.rejoin(request, call.peer, call.signal)),
      ),
  };
}

async function* admit(
  parts: JoinHandlerParts,
  requests: AsyncIterable<AdmissionRequest>,
  { peer, signal }: Call<AttestedPeer>,
): AsyncGenerator<Event> {
  const { facts, clock, feed, admissions } = parts;
  yield { event: { case: 'cluster', value: await facts.introduce(peer.session, signal) } };
  const turns = new Turns(requests, clock);
  const introduction = readHello(await turns.hello(signal), peer.session, clock.nowMs());
  const machine = yield* identify(parts, { peer, turns, enrolment: introduction.enrolment, signal });
  checkOwnKey(machine, introduction.pubKeyDer);
  const asking: Asking = { ...introduction, machine };
  if (feed.waiting >= MAX_WAITING) throw new JoinError('join-busy', `${MAX_WAITING} machines wait here`);
  let told = ''; // why it waits, as it knows
  for (;;) {
    using news = feed.next(asking.nodeId); // before looking, so that nothing is missed
    const considered = await inTurn(parts, signal, () => admissions.consider(asking, signal));
    const why = considered.kind === 'admitted' ? 'admitted' : considered.record.code;
    if (why !== told) yield eventOf(asking, considered);
    if (considered.kind === 'admitted') return;
    told = (await isNews(news.changed, clock, signal)) ? why : '';
  }
}

/** The challenge of the machine's TPM, where its evidence needs one. */
async function* identify(
  { identifier }: JoinHandlerParts,
  session: {
    readonly peer: AttestedPeer;
    readonly turns: Turns;
    readonly enrolment: Uint8Array;
    readonly signal: AbortSignal;
  },
): AsyncGenerator<Event, Asking['machine']> {
  const { peer, turns, enrolment, signal } = session;
  const asked = Promise.withResolvers<Uint8Array>();
  const answered = Promise.withResolvers<Uint8Array>();
  answered.promise.catch(() => undefined); // whoever identifies has it
  const identified = identifier.identify(peer, enrolment, (challenge) => {
    asked.resolve(challenge);
    return answered.promise;
  });
  const challenge = await Promise.race([asked.promise, identified.then(() => undefined)]);
  if (challenge !== undefined) {
    yield { event: { case: 'challenge', value: { challenge } } };
    try {
      answered.resolve(await turns.answer(signal));
    } catch (error) {
      answered.reject(error);
    }
  }
  return await identified;
}

/** What a machine says, one message at its turn. */
class Turns {
  readonly #messages: AsyncIterator<AdmissionRequest, unknown>;
  readonly #clock: Clock;

  constructor(requests: AsyncIterable<AdmissionRequest>, clock: Clock) {
    this.#messages = requests[Symbol.asyncIterator]();
    this.#clock = clock;
  }

  async hello(signal: AbortSignal): Promise<Hello> {
    const said = await this.#next('hello', signal);
    if (said.case === 'hello') return said.value;
    throw outOfTurn('hello', said.case);
  }

  async answer(signal: AbortSignal): Promise<Uint8Array> {
    const said = await this.#next('the answer to a challenge', signal);
    if (said.case === 'challengeAnswer') return said.value.answer;
    throw outOfTurn('the answer to a challenge', said.case);
  }

  async #next(due: string, signal: AbortSignal): Promise<AdmissionRequest['message']> {
    const limit = { what: `waiting for ${due}`, ms: TURN_MS, clock: this.#clock, signal };
    try {
      const next = await withTimeout(limit, () => this.#messages.next());
      if (next.done !== true) return next.value.message;
    } catch (error) {
      if (!(error instanceof TimeoutError)) throw error;
      throw new JoinError('join-silent', limit.what, { cause: error });
    }
    throw outOfTurn(due, undefined);
  }
}

function outOfTurn(due: string, got: string | undefined): JoinError {
  return new JoinError('join-message-malformed', `waiting for ${due}: got ${got ?? 'nothing'}`);
}

function eventOf({ nodeId, pubKeyDer }: Asking, considered: Considered): Event {
  if (considered.kind === 'admitted') {
    const { grant, expiresMs } = considered;
    const value = {
      joinId: nodeId,
      nodeName: grant.name,
      roles: [...grant.roles],
      expiresMs: BigInt(expiresMs),
    };
    return { event: { case: 'admitted', value } };
  }
  const { code, firstSeenMs } = considered.record;
  return {
    event: {
      case: 'waiting',
      value: {
        joinId: nodeId,
        code,
        message: 'an operator has to decide about this machine',
        fingerprint: fingerprintOfKey(pubKeyDer),
        sinceMs: BigInt(firstSeenMs),
        retryAfterMs: BigInt(RETRY_AFTER_MS),
      },
    },
  };
}

/** etcd and the signer get as much as they can do in time. */
async function inTurn<T>(
  { turnstile }: JoinHandlerParts,
  signal: AbortSignal,
  work: () => Promise<T>,
): Promise<T> {
  using _place = await turnstile.pass(signal);
  return await work();
}

/** false: nothing for a minute. */
async function isNews(news: Promise<void>, clock: Clock, signal: AbortSignal): Promise<boolean> {
  const limit = { what: 'waiting for a decision', ms: REMIND_MS, clock, signal };
  try {
    await withTimeout(limit, () => news);
    return true;
  } catch (error) {
    if (error instanceof TimeoutError) return false;
    throw error;
  }
}

async function* noted(
  parts: JoinHandlerParts,
  call: Call<AttestedPeer>,
  method: string,
  events: AsyncIterable<Event>,
): AsyncGenerator<Event> {
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
  { admissions, log }: JoinHandlerParts,
  { peer, signal }: Call<AttestedPeer>,
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
    evidenceDigest: digestOf(peer),
    identity: `${peer.machineIdentity.kind}:${peer.machineIdentity.id}`,
  };
  const detail = { reason: describeError(error).slice(0, 512), ...evidence };
  await admissions
    .refused({ method, subject: evidence.identity, code: coded.code, detail }, signal)
    .catch((cause: unknown) => log.error('a refusal could not be written down', { error: cause }));
}
