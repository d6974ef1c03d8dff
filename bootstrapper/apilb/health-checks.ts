import type { Clock } from '../../internal/clock/index.ts';
import { describeError } from '../../internal/errors/index.ts';
import type { Logger } from '../../internal/logging/index.ts';
import type { Endpoint } from './config.ts';
import { upstreamKey, type Verdict } from './upstreams.ts';

/**
 * How often an upstream is asked: one that carries connections, one that carries none, one that did not answer. With two
 * questions of ANSWER_MS each, an upstream that hangs is found 2,200 + 1,200 + 1,200 ms after it last answered, at the
 * latest.
 */
const USED_MS = 2_000;
const UNUSED_MS = 10_000;
const UNHEALTHY_MS = 2_000;
/** Part of an interval by which it varies, so that the nodes of a cluster do not ask at the same moment. */
const JITTER = 0.1;
const ANSWER_MS = 1_200;
/** So long an upstream may say that it is not ready before its connections are closed: it may be about to be. */
const UNREADY_MS = 5_000;
/** A question that took this much longer than it may says that this process stood still, and nothing of the upstream. */
const STALL_MS = 500;

/** One question to an upstream: resolves with why it is not ready, rejects when it does not answer. */
export interface UpstreamProbe {
  check(upstream: Endpoint): Promise<string | undefined>;
  /** Ends the question under way, and closes what is kept: the next question uses a connection of its own. */
  disconnect(upstream: Endpoint): void;
}

/** An upstream as an operator reads of it. */
export interface UpstreamHealth {
  readonly upstream: Endpoint;
  readonly verdict: Verdict;
  /** Since when it has this verdict, in Unix milliseconds. */
  readonly sinceMs: number;
  /** Why it is not healthy; empty where it is. */
  readonly why: string;
}

interface HealthChecksOptions {
  readonly probe: UpstreamProbe;
  readonly clock: Clock;
  readonly random: () => number;
  readonly log: Logger;
  /** Whether connections go to it. */
  readonly isUsed: (upstream: Endpoint) => boolean;
  /** Closes its connections. */
  readonly cut: (upstream: Endpoint) => void;
}

interface Target {
  readonly upstream: Endpoint;
  isListed: boolean;
  verdict: Verdict;
  sinceMs: number;
  why: string;
  /** When the first question was sent since which it has not been found healthy; monotonic. */
  suspectedMs: number | undefined;
  /** Whether another upstream has been found healthy since. */
  hasAlternative: boolean;
  /** Ends the pause that it is in. */
  pause: AbortController | undefined;
}

interface Answer {
  readonly verdict: Verdict;
  readonly why: string;
}

/**
 * Active health: asks every upstream on its own schedule. Two questions in a row without an answer, the second over a
 * connection of its own, make an upstream `silent`. The connections of a silent upstream are closed, and those of one that
 * is not ready for five seconds, when another upstream has been found healthy since: clients connect again and come to that
 * one. Where no other is healthy they stay.
 */
export class HealthChecks implements Disposable {
  readonly #options: HealthChecksOptions;
  readonly #targets = new Map<string, Target>();
  #hasEnded = false;

  constructor(options: HealthChecksOptions) {
    this.#options = options;
  }

  /** An upstream that left the list is asked as long as connections go to it. */
  replace(upstreams: readonly Endpoint[]): void {
    const listed = new Map(upstreams.map((upstream) => [upstreamKey(upstream), upstream]));
    for (const [key, target] of this.#targets) {
      target.isListed = listed.has(key);
      if (!target.isListed) target.pause?.abort();
    }
    for (const [key, upstream] of listed) if (!this.#targets.has(key)) this.#begin(key, upstream);
  }

  verdictOf(upstream: Endpoint): Verdict {
    return this.#targets.get(upstreamKey(upstream))?.verdict ?? 'unknown';
  }

  /** Its first connection: from now on it is asked more often. */
  used(upstream: Endpoint): void {
    this.#targets.get(upstreamKey(upstream))?.pause?.abort();
  }

  states(): readonly UpstreamHealth[] {
    return [...this.#targets.values()].map(({ upstream, verdict, sinceMs, why }) => ({
      ...{ upstream, verdict, sinceMs, why },
    }));
  }

  [Symbol.dispose](): void {
    this.#hasEnded = true;
    for (const { upstream, pause } of this.#targets.values()) {
      this.#options.probe.disconnect(upstream);
      pause?.abort();
    }
  }

  #begin(key: string, upstream: Endpoint): void {
    const target: Target = {
      upstream,
      isListed: true,
      verdict: 'unknown',
      sinceMs: this.#options.clock.nowMs(),
      why: 'not asked yet',
      suspectedMs: undefined,
      hasAlternative: false,
      pause: undefined,
    };
    this.#targets.set(key, target);
    void this.#watch(key, target);
  }

  async #watch(key: string, target: Target): Promise<void> {
    const { isUsed, probe } = this.#options;
    while (!this.#hasEnded && (target.isListed || isUsed(target.upstream))) {
      await this.#check(target);
      await this.#pause(target);
    }
    probe.disconnect(target.upstream);
    if (this.#targets.get(key) === target) this.#targets.delete(key);
  }

  async #pause(target: Target): Promise<void> {
    const { clock, random } = this.#options;
    if (this.#hasEnded) return;
    const pause = new AbortController();
    target.pause = pause;
    const ms = this.#intervalOf(target) * (1 - JITTER + 2 * JITTER * random());
    await clock.sleep(ms, pause.signal).catch(() => undefined);
    target.pause = undefined;
  }

  #intervalOf({ upstream, verdict }: Target): number {
    if (verdict === 'silent' || verdict === 'unready') return UNHEALTHY_MS;
    return this.#options.isUsed(upstream) ? USED_MS : UNUSED_MS;
  }

  async #check(target: Target): Promise<void> {
    const { clock, probe } = this.#options;
    const askedMs = clock.monotonicMs();
    let answer = await this.#ask(target);
    if (answer?.verdict === 'silent' && target.verdict !== 'silent') {
      target.suspectedMs ??= askedMs;
      this.#askOthersNow(target);
      probe.disconnect(target.upstream);
      answer = await this.#ask(target);
    }
    if (answer === undefined || this.#hasEnded) return;
    this.#judge(target, answer);
    if (answer.verdict === 'healthy') return this.#isHealthy(target);
    if (target.suspectedMs === undefined) {
      target.suspectedMs = askedMs;
      this.#askOthersNow(target);
    }
    const isOver = answer.verdict === 'silent' || clock.monotonicMs() - target.suspectedMs >= UNREADY_MS;
    if (isOver) this.#cutIfOthersWork(target);
  }

  /**
   * Upstreams that were suspected before are asked again before anything is closed: what has kept all of them from
   * answering (no leader in etcd) may be over for them too.
   */
  #isHealthy(target: Target): void {
    target.suspectedMs = undefined;
    target.hasAlternative = false;
    if (!target.isListed) return;
    for (const other of this.#targets.values()) {
      if (other.suspectedMs === undefined || other.hasAlternative) continue;
      other.hasAlternative = true;
      other.pause?.abort();
    }
  }

  #cutIfOthersWork(target: Target): void {
    const { cut, isUsed, log } = this.#options;
    const { upstream, hasAlternative, why } = target;
    if (!hasAlternative || !isUsed(upstream)) return;
    const healthy = [...this.#targets.values()].find((each) => each.isListed && each.verdict === 'healthy');
    if (healthy === undefined) return;
    log.warn('closing the connections to an unhealthy server', { upstream, why, healthy: healthy.upstream });
    cut(upstream);
  }

  /**
   * undefined: the question said nothing. This runs every other second for good on every node, so it makes do with one timer:
   * what is late is forgotten, and so its question rejects.
   */
  async #ask({ upstream }: Target): Promise<Answer | undefined> {
    const { clock, probe } = this.#options;
    const startedMs = clock.monotonicMs();
    const timer = new AbortController();
    let isLate = false;
    void clock.sleep(ANSWER_MS, timer.signal).then(
      () => {
        isLate = true;
        probe.disconnect(upstream);
      },
      () => undefined,
    );
    try {
      const why = await probe.check(upstream);
      return why === undefined ? { verdict: 'healthy', why: '' } : { verdict: 'unready', why };
    } catch (error) {
      probe.disconnect(upstream);
      if (clock.monotonicMs() - startedMs > ANSWER_MS + STALL_MS) return undefined;
      return { verdict: 'silent', why: isLate ? `no answer within ${ANSWER_MS} ms` : describeError(error) };
    } finally {
      timer.abort();
    }
  }

  #judge(target: Target, { verdict, why }: Answer): void {
    const { clock, log } = this.#options;
    target.why = why;
    if (target.verdict === verdict) return;
    const { upstream, verdict: before } = target;
    target.verdict = verdict;
    target.sinceMs = clock.nowMs();
    if (verdict !== 'healthy') log.warn('server unhealthy', { upstream, verdict, why });
    else if (before !== 'unknown') log.info('server healthy again', { upstream });
  }

  /** They may take over what it has: what is known of them may be ten seconds old. */
  #askOthersNow(target: Target): void {
    for (const other of this.#targets.values()) if (other !== target) other.pause?.abort();
  }
}
