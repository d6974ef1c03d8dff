import type { AttestedPeer } from '../../../internal/atls/index.ts';
import { isDoneWithin } from '../../../internal/cleanup/index.ts';
import type { Clock } from '../../../internal/clock/index.ts';
import type { Call, FairQueue, SourcePath } from '../../../internal/rpc/index.ts';
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

/** How often a waiting machine gets a repeated event, so that the machine knows that the stream is alive. */
const REMIND_MS = 60_000;
/** The maximum number of machines that wait for a decision at one control plane. */
const MAX_WAITING = 2048;

/** Dependencies of an admission stream. */
export interface AdmissionStreamParts {
  readonly facts: ClusterFacts;
  readonly identifier: MachineIdentifier;
  readonly admissions: Admissions;
  readonly feed: JoinFeed;
  /** Limits open challenges and shares them among source addresses. */
  readonly challengeSlots: FairQueue;
  /** Limits work on etcd and the signer, and shares it among source addresses. */
  readonly workSlots: FairQueue;
  readonly clock: Clock;
}

/**
 * One call of `RequestAdmission`: the cluster identity, the hello of the machine, the challenge of its TPM, then events
 * until it is admitted, which may take days.
 * @throws JoinError the refusal
 */
export async function* admissionStream(
  parts: AdmissionStreamParts,
  requests: AsyncIterable<AdmissionRequest>,
  call: Call<AttestedPeer>,
): AsyncGenerator<AdmissionEventInit> {
  const { facts, clock, feed, workSlots } = parts;
  const { peer, signal } = call;
  yield { event: { case: 'cluster', value: await facts.clusterIdentity(peer.session, signal) } };
  const messages = new MachineMessages(requests, clock);
  const introduction = readHello(await messages.hello(signal), peer.session, clock.nowMs());
  const { enrolment } = introduction;
  const { address = '', source = address } = call;
  const machine = yield* identify(parts, { peer, messages, enrolment, source, signal });
  checkOwnKey(machine, introduction.pubKeyDer);
  const applicant = { ...introduction, machine, source };
  try {
    if (feed.waiting >= MAX_WAITING)
      throw new JoinError(
        'join-busy',
        `admitting ${applicant.nodeId}: ${MAX_WAITING} machines already wait here`,
      );
    if (workSlots.waiting > 0)
      yield queuedEvent(applicant, workSlots.waiting + 1, workSlots.estimatedWaitMs, clock.nowMs());
    yield* untilDecided(parts, applicant, signal);
  } catch (error) {
    if (error instanceof JoinError && error.code === 'join-busy')
      yield busyEvent(applicant, workSlots.estimatedWaitMs, clock.nowMs());
    throw error;
  }
}

/** Decides again whenever the request, the policy or an owner document changes, and at least every minute. */
async function* untilDecided(
  { clock, feed, admissions, workSlots }: AdmissionStreamParts,
  applicant: Applicant & { readonly source: string | SourcePath },
  signal: AbortSignal,
): AsyncGenerator<AdmissionEventInit> {
  let reported = ''; // the code that was last sent to the machine
  for (;;) {
    using news = feed.next(applicant.nodeId); // Watches from here on, so that no change during the decision is missed.
    const result = await withWorkSlot(workSlots, { source: applicant.source, signal }, () =>
      admissions.decide(applicant, signal),
    );
    const why = result.kind === 'admitted' ? 'admitted' : result.record.code;
    if (why !== reported) yield resultEvent(applicant, result);
    if (result.kind === 'admitted') return;
    reported = (await isNews(news.changed, clock, signal)) ? why : '';
  }
}

/** The source whose share of the slots the work uses: `source`, or `address` if there is no `source`. */
interface WorkCall {
  readonly address?: string;
  readonly source?: string | SourcePath;
  readonly signal: AbortSignal;
}

/** Runs work on etcd and the signer in one of the slots. */
export async function withWorkSlot<T>(
  workSlots: FairQueue,
  call: WorkCall,
  work: () => Promise<T>,
): Promise<T> {
  const { address = '', source = address, signal } = call;
  using _slot = await workSlots.acquire(source, signal);
  return await work();
}

/** Identifies the machine, and passes on the challenge of its TPM where its evidence needs one. */
async function* identify(
  { identifier, challengeSlots }: AdmissionStreamParts,
  session: {
    readonly peer: AttestedPeer;
    readonly messages: MachineMessages;
    readonly enrolment: Uint8Array;
    readonly source: string | SourcePath;
    readonly signal: AbortSignal;
  },
): AsyncGenerator<AdmissionEventInit, Applicant['machine']> {
  const { peer, messages, enrolment, source, signal } = session;
  using _slot = await challengeSlots.acquire(source, signal);
  const asked = Promise.withResolvers<Uint8Array>();
  const answered = Promise.withResolvers<Uint8Array>();
  answered.promise.catch(() => undefined); // The identifier awaits this promise and handles its error.
  const identified = identifier.identify(peer, enrolment, (challenge) => {
    asked.resolve(challenge);
    return answered.promise;
  });
  identified.catch(() => undefined); // awaited below, unless the stream ends first
  try {
    const challenge = await Promise.race([asked.promise, identified.then(() => undefined)]);
    if (challenge !== undefined) {
      yield { event: { case: 'challenge', value: { challenge } } };
      try {
        answered.resolve(await messages.answer(signal));
      } catch (error) {
        answered.reject(error);
      }
    }
    return await identified;
  } finally {
    answered.reject(new JoinError('join-hung-up', 'waiting for the answer to a challenge: the stream ended'));
  }
}

/** Returns false if nothing changed for a minute. */
async function isNews(news: Promise<void>, clock: Clock, signal: AbortSignal): Promise<boolean> {
  return isDoneWithin({ what: 'waiting for a decision', ms: REMIND_MS, clock, signal }, () => news);
}
