const [STEP_MS, LONGEST_STEP_MS] = [3, 96];
const SPREAD_MS = 12;

/**
 * Picks the delay between init and join so that each of them wins some rounds, on fast and slow machines alike. The
 * side that won waits longer in the next round. The added delay doubles until the other side wins. Random jitter
 * spreads the moments.
 */
export class HeadStart {
  readonly wins = { init: 0, join: 0 };
  readonly #next: () => number;
  #headStartMs = 0;
  #step = { by: '', ms: 0 };

  /** `next` gives numbers in [0, 1). */
  constructor(next: () => number) {
    this.#next = next;
  }

  /** How long before the init the ticket is granted, ms; a negative value means after it. */
  leadMs(): number {
    return this.#headStartMs + (this.#next() * 2 - 1) * SPREAD_MS;
  }

  won(by: 'init' | 'join'): void {
    this.wins[by]++;
    const ms = this.#step.by === by ? Math.min(2 * this.#step.ms, LONGEST_STEP_MS) : STEP_MS;
    this.#step = { by, ms };
    this.#headStartMs += by === 'init' ? ms : -ms;
  }
}

/** Numbers in [0, 1) that a seed repeats (xorshift32). */
export function seededRandom(seed: number): () => number {
  let state = seed | 0 || 1;
  return () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) / 2 ** 32;
  };
}
