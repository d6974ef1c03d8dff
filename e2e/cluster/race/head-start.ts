const [STEP_MS, LONGEST_STEP_MS] = [3, 96];
const SPREAD_MS = 12;

/**
 * When either may go, so that it stays a race however fast the machine is: whoever won has to wait longer the next time,
 * in steps that double until the other one wins. Around that the moments are spread.
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

  /** By how much the ticket is granted before the init may go; negative: after. */
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
