import { createHash } from 'node:crypto';
import { HOUR_MS, MINUTE_MS, type Clock } from '../../internal/clock/index.ts';
import { Secret } from '../../internal/secret/index.ts';

/** How long a decision is used without asking again. */
const ALLOWED_MS = MINUTE_MS;
const REFUSED_MS = 10_000;
/**
 * How long an allowed token stays allowed while no API server answers. Metrics are needed most when the control plane
 * is down, and tokens of pods are valid for an hour.
 */
const UNANSWERED_MS = HOUR_MS;
/**
 * The maximum number of pending reviews, so that clients with invented tokens cannot make this node send more requests.
 */
const MAX_PENDING = 4;
const MAX_ALLOWED = 16;
const MAX_REFUSED = 64;

/** The decision of an API server about a token; `unknown`: no API server has answered. */
export type Verdict = 'allowed' | 'refused' | 'unknown';

/** Asks an API server whether the holder of a token may read metrics. Throws when no API server answers. */
export type AskAboutToken = (token: Secret<string>, signal: AbortSignal) => Promise<boolean>;

/** Recent decisions of the API server whether the holder of a token may read metrics. Stores only hashes of tokens. */
export class TokenReviews {
  readonly #ask: AskAboutToken;
  readonly #clock: Pick<Clock, 'monotonicMs'>;
  /** When each token was allowed or refused last, oldest first. */
  readonly #allowed = new Map<string, number>();
  readonly #refused = new Map<string, number>();
  #pending = 0;

  constructor(options: { readonly ask: AskAboutToken; readonly clock: Pick<Clock, 'monotonicMs'> }) {
    this.#ask = options.ask;
    this.#clock = options.clock;
  }

  /** @param token untrusted */
  async judge(token: string, signal: AbortSignal): Promise<Verdict> {
    const key = createHash('sha256').update(token).digest('base64');
    if (this.#age(this.#allowed, key) < ALLOWED_MS) return 'allowed';
    if (this.#age(this.#refused, key) < REFUSED_MS) return 'refused';
    // Invented tokens must not keep an earlier decision in effect by occupying all reviews.
    const mayAsk = this.#allowed.has(key) || this.#pending < MAX_PENDING;
    const verdict = mayAsk ? await this.#review(token, signal) : 'unknown';
    if (verdict === 'unknown') return this.#age(this.#allowed, key) < UNANSWERED_MS ? 'allowed' : 'unknown';
    this.#allowed.delete(key);
    if (verdict === 'allowed') this.#keep(this.#allowed, key, MAX_ALLOWED);
    else this.#keep(this.#refused, key, MAX_REFUSED);
    return verdict;
  }

  async #review(token: string, signal: AbortSignal): Promise<Verdict> {
    this.#pending++;
    try {
      return (await this.#ask(new Secret(token), signal)) ? 'allowed' : 'refused';
    } catch {
      signal.throwIfAborted();
      return 'unknown'; // no API server answers
    } finally {
      this.#pending--;
    }
  }

  #age(decisions: ReadonlyMap<string, number>, key: string): number {
    const atMs = decisions.get(key);
    return atMs === undefined ? Infinity : this.#clock.monotonicMs() - atMs;
  }

  #keep(decisions: Map<string, number>, key: string, max: number): void {
    decisions.delete(key);
    decisions.set(key, this.#clock.monotonicMs());
    const [oldest] = decisions.keys();
    if (decisions.size > max && oldest !== undefined) decisions.delete(oldest);
  }
}
