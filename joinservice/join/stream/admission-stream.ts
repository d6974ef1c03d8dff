import type { AttestedPeer } from '../../../internal/atls/index.ts';
import { TimeoutError, withTimeout } from '../../../internal/cleanup/index.ts';
import type { Clock } from '../../../internal/clock/index.ts';
import type { Call, FairQueue } from '../../../internal/rpc/index.ts';
import type { AdmissionRequest } from '../../joinproto/gen/join_pb.js';
import { busyEvent, resultEvent, queuedEvent, type AdmissionEventInit } from './admission-events.ts';
import type { Admissions } from '../admission/admissions.ts';
import type { Applicant } from '../admission/applicant.ts';
import type { ClusterFacts } from '../tickets/cluster-facts.ts';
import { JoinError } from '../errors.ts';
import { readHello } from './read-hello.ts';
import type { JoinFeed } from '../requests/join-feed.ts';
import { checkOwnKey, type MachineIdentifier } from '../machine/machine-identifier.ts';
import { MachineMessages } from './machine-messages.ts';

/** A waiting machine is told so again after this time, so that it knows that somebody is still there. */
const REMIND_MS = 60_000;
/** Streams of machines that wait for a decision, at one node. */
const MAX_WAITING = 2048;

export interface AdmissionStreamParts {
  readonly facts: ClusterFacts;
  readonly identifier: MachineIdentifier;
  readonly admissions: Admissions;
  readonly feed: JoinFeed;
  /**
   * Before a machine is asked who it is: a challenge is open until it is answered, and there are only so many. Nobody may
   * have all of them.
   */
  readonly challengeSlots: FairQueue;
  /** Before whatever asks etcd or the signer. */
  readonly workSlots: FairQueue;
  readonly clock: Clock;
}

/** One machine's way from its first word to its admission, which may take days. */
export async function* admissionStream(
  parts: AdmissionStreamParts,
  requests: AsyncIterable<AdmissionRequest>,
  call: Call<AttestedPeer>,
): AsyncGenerator<AdmissionEventInit> {
  const { facts, clock, feed, workSlots: turnstile } = parts;
  const { peer, signal } = call;
  yield { event: { case: 'cluster', value: await facts.clusterIdentity(peer.session, signal) } };
  const turns = new MachineMessages(requests, clock);
  const introduction = readHello(await turns.hello(signal), peer.session, clock.nowMs());
  const { enrolment } = introduction;
  const { address = '' } = call;
  const machine = yield* identify(parts, { peer, turns, enrolment, address, signal });
  checkOwnKey(machine, introduction.pubKeyDer);
  const applicant = { ...introduction, machine, address };
  try {
    if (feed.waiting >= MAX_WAITING) throw new JoinError('join-busy', `${MAX_WAITING} machines wait here`);
    if (turnstile.waiting > 0)
      yield queuedEvent(applicant, turnstile.waiting + 1, turnstile.estimatedWaitMs, clock.nowMs());
    yield* untilDecided(parts, applicant, signal);
  } catch (error) {
    if (error instanceof JoinError && error.code === 'join-busy')
      yield busyEvent(applicant, turnstile.estimatedWaitMs, clock.nowMs());
    throw error;
  }
}

/** Looks anew whenever there is news: the operator's word, another policy, or a minute. */
async function* untilDecided(
  { clock, feed, admissions, workSlots: turnstile }: AdmissionStreamParts,
  applicant: Applicant & { readonly address: string },
  signal: AbortSignal,
): AsyncGenerator<AdmissionEventInit> {
  let told = ''; // why it waits, as it knows
  for (;;) {
    using news = feed.next(applicant.nodeId); // before looking, so that nothing is missed
    const considered = await withWorkSlot(turnstile, { address: applicant.address, signal }, () =>
      admissions.decide(applicant, signal),
    );
    const why = considered.kind === 'admitted' ? 'admitted' : considered.record.code;
    if (why !== told) yield resultEvent(applicant, considered);
    if (considered.kind === 'admitted') return;
    told = (await isNews(news.changed, clock, signal)) ? why : '';
  }
}

/** etcd and the signer get as much as they can do in time, and each source its share of it. */
export async function withWorkSlot<T>(
  turnstile: FairQueue,
  { address = '', signal }: Pick<Call<AttestedPeer>, 'address' | 'signal'>,
  work: () => Promise<T>,
): Promise<T> {
  using _place = await turnstile.acquire(address, signal);
  return await work();
}

/** The challenge of the machine's TPM, where its evidence needs one. */
async function* identify(
  { identifier, challengeSlots: identifying }: AdmissionStreamParts,
  session: {
    readonly peer: AttestedPeer;
    readonly turns: MachineMessages;
    readonly enrolment: Uint8Array;
    readonly address: string;
    readonly signal: AbortSignal;
  },
): AsyncGenerator<AdmissionEventInit, Applicant['machine']> {
  const { peer, turns, enrolment, address, signal } = session;
  using _place = await identifying.acquire(address, signal);
  const asked = Promise.withResolvers<Uint8Array>();
  const answered = Promise.withResolvers<Uint8Array>();
  answered.promise.catch(() => undefined); // whoever identifies has it
  const identified = identifier.identify(peer, enrolment, (challenge) => {
    asked.resolve(challenge);
    return answered.promise;
  });
  identified.catch(() => undefined); // awaited below, unless the machine hangs up before
  try {
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
  } finally {
    answered.reject(new JoinError('join-hung-up', 'waiting for the answer to a challenge'));
  }
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
