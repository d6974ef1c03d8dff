import { DAY_MS, HOUR_MS, type Clock } from '../../../internal/clock/index.ts';
import { describeError } from '../../../internal/errors/index.ts';
import { RepeatedProblem, type Logger } from '../../../internal/logging/index.ts';
import { isShareError, type DiskError, type ShareKeeper } from '../../disk/index.ts';

/** After a failed probe the next one follows sooner, but not after a refusal, because each one is in the audit log of requests. */
const PAUSE_MS = { good: DAY_MS, failed: HOUR_MS, refused: DAY_MS };

/** The cluster share of this machine's state disk. */
export interface ProbedShare {
  readKeeper(signal: AbortSignal): Promise<ShareKeeper>;
  /** Asks one control plane, or any, whether it would give the share; takes none. Does nothing if the machine has one. */
  probe(of: { readonly nodeId: string } | 'any', signal: AbortSignal): Promise<void>;
}

/**
 * Asks about once a day whether the share of the disk can still be had, one control plane chosen at random: otherwise nobody would notice
 * until the machine restarts, and stays closed. The workers of a cluster together ask all of its control planes.
 */
export class ShareProbe {
  readonly #clock: Pick<Clock, 'monotonicMs'>;
  readonly #random: () => number;
  readonly #repeated = new RepeatedProblem();
  #nextMs: number;
  #problem: string | undefined;

  constructor({
    clock,
    random,
  }: {
    readonly clock: Pick<Clock, 'monotonicMs'>;
    readonly random: () => number;
  }) {
    this.#clock = clock;
    this.#random = random;
    // Not at once: most agents start because their machine does, which has just had its share.
    this.#nextMs = clock.monotonicMs() + this.#spread(HOUR_MS);
  }

  /** Asks if that is due. @returns what was wrong the last time */
  async whenDue(share: ProbedShare, log: Logger, signal: AbortSignal): Promise<string | undefined> {
    if (this.#clock.monotonicMs() < this.#nextMs) return this.#problem;
    const error = await this.#failureOf(share, signal);
    this.#problem = error === undefined ? undefined : `${error.message}: ${describeError(error.cause)}`;
    this.#nextMs = this.#clock.monotonicMs() + this.#spread(PAUSE_MS[outcomeOf(error)]);
    if (error === undefined) this.#repeated.end();
    else if (this.#repeated.isNew(error)) log.warn('share of the state disk cannot be had', { error });
    return this.#problem;
  }

  async #failureOf(share: ProbedShare, signal: AbortSignal): Promise<Error | undefined> {
    const keeper = await share.readKeeper(signal);
    if (keeper.kind !== 'signer') return undefined;
    const { controlPlanes } = keeper.source;
    const chosen = controlPlanes[Math.floor(this.#random() * controlPlanes.length)];
    const ask = (of: Parameters<ProbedShare['probe']>[0]): Promise<DiskError | undefined> =>
      share.probe(of, signal).then(() => undefined, shareErrorOf);
    const alone = await ask(chosen ?? 'any');
    if (alone === undefined) return undefined;
    const all = await ask('any');
    if (all !== undefined)
      return new Error('no control plane gives the share of the state disk', { cause: all });
    const what = `control plane ${chosen?.nodeId} gives no share of the state disk, another one does`;
    return new Error(what, { cause: alone });
  }

  #spread(meanMs: number): number {
    return meanMs * (0.5 + this.#random());
  }
}

function outcomeOf(error: Error | undefined): keyof typeof PAUSE_MS {
  if (error === undefined) return 'good';
  const { cause } = error;
  return isShareError(cause) && cause.code === 'disk-share-refused' ? 'refused' : 'failed';
}

function shareErrorOf(error: unknown): DiskError {
  if (isShareError(error)) return error;
  throw error as Error;
}
