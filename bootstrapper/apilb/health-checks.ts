import { formatDuration, type Clock } from '../../internal/clock/index.ts';
import { describeError } from '../../internal/errors/index.ts';
import type { Logger } from '../../internal/logging/index.ts';
import type { Endpoint } from './config.ts';
import { upstreamKey, type Verdict } from './upstreams.ts';

/**
 * Pauses between checks of an upstream: with connections, without connections, and without an answer. With
 * two requests of ANSWER_MS each, a hung upstream is detected 2,200 + 1,200 + 1,200 ms after its last answer
 * at the latest.
 */
const USED_MS = 2_000;
const UNUSED_MS = 10_000;
const UNHEALTHY_MS = 2_000;
/** Relative variation of the pauses, so that the nodes of a cluster do not check at the same time. */
const JITTER = 0.1;
const ANSWER_MS = 1_200;
/** Time for which an upstream may report that it is not ready before its connections are closed. */
const UNREADY_MS = 5_000;
/** If a request takes this much longer than its timeout, this process was stopped, not the upstream. */
const STALL_MS = 500;

/** Runs one health check of an upstream. */
export interface UpstreamProbe {
  /**
   * Resolves with the reason why the upstream is not ready, or with undefined if it is ready. Rejects if
   * there is no answer.
   */
  check(upstream: Endpoint): Promise<string | undefined>;
  /** Aborts a running check and closes its connection: the next check uses a new one. */
  disconnect(upstream: Endpoint): void;
}

/** The health of an upstream, as written to the health socket. */
export interface UpstreamHealth {
  readonly upstream: Endpoint;
  readonly verdict: Verdict;
  /** Time since which the upstream has this verdict, in Unix milliseconds. */
  readonly sinceMs: number;
  /** Why the upstream is not healthy; empty if it is healthy. */
  readonly why: string;
}

interface HealthChecksOptions {
  readonly probe: UpstreamProbe;
  readonly clock: Clock;
  readonly random: () => number;
  readonly log: Logger;
  /** Whether the upstream has open connections. */
  readonly isUsed: (upstream: Endpoint) => boolean;
  /** Closes the connections to the upstream. */
  readonly cut: (upstream: Endpoint) => void;
}

interface Target {
  readonly upstream: Endpoint;
  isListed: boolean;
  verdict: Verdict;
  sinceMs: number;
  why: string;
  /** Monotonic time of the first failed check since the upstream was last healthy. */
  suspectedMs: number | undefined;
  /** Whether another upstream was found healthy since that time. */
  hasAlternative: boolean;
  /** Aborting this controller ends the current pause. */
  pause: AbortController | undefined;
}

interface Answer {
  readonly verdict: Verdict;
  readonly why: string;
}

/**
 * Active health checks; each upstream has its own schedule. An upstream becomes `silent` after two checks in
 * a row without an answer, the second over a new connection. The connections of an upstream that is silent,
 * or unready for 5 s, are closed if another upstream was found healthy since then: clients reconnect and
 * reach the healthy one. Otherwise the connections stay open.
 */
export class HealthChecks implements Disposable {
  readonly #options: HealthChecksOptions;
  readonly #targets = new Map<string, Target>();
  #hasEnded = false;

  constructor(options: HealthChecksOptions) {
    this.#options = options;
  }

  /** Sets the upstreams to check. A removed upstream is checked while it has connections. */
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

  /** Reports that an upstream got its first connection. The upstream is checked more often from now on. */
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
      why: 'not checked yet',
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
    const checkedMs = clock.monotonicMs();
    let answer = await this.#request(target);
    if (answer?.verdict === 'silent' && target.verdict !== 'silent') {
      target.suspectedMs ??= checkedMs;
      this.#checkOthersNow(target);
      probe.disconnect(target.upstream);
      answer = await this.#request(target);
    }
    if (answer === undefined || this.#hasEnded) return;
    this.#judge(target, answer);
    if (answer.verdict === 'healthy') return this.#isHealthy(target);
    if (target.suspectedMs === undefined) {
      target.suspectedMs = checkedMs;
      this.#checkOthersNow(target);
    }
    const isOver = answer.verdict === 'silent' || clock.monotonicMs() - target.suspectedMs >= UNREADY_MS;
    if (isOver) this.#cutIfOthersWork(target);
  }

  /**
   * Handles a successful check. Other upstreams that failed are checked again before their connections are
   * closed: a cause that affected all upstreams (such as etcd without a leader) may have ended for them too.
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
   * Sends one check request. Returns undefined if the check was inconclusive. This runs every 2 s on every
   * node, so it uses only one timer: a late check is disconnected and therefore rejects.
   */
  async #request({ upstream }: Target): Promise<Answer | undefined> {
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
      return {
        verdict: 'silent',
        why: isLate ? `no answer within ${formatDuration(ANSWER_MS)}` : describeError(error),
      };
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

  /**
   * Checks the other upstreams now. They may have to take over the connections of this upstream, and their
   * last check may be 10 s old.
   */
  #checkOthersNow(target: Target): void {
    for (const other of this.#targets.values()) if (other !== target) other.pause?.abort();
  }
}
