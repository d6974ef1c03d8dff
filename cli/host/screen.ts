import type { OutputStream } from './host.ts';

/** Clears a terminal and moves to its first cell. */
const CLEAR = '\u001b[2J\u001b[H';

/** Results that replace each other, for commands that watch. */
export class Screen {
  readonly #terminal: OutputStream | undefined;
  #isWatching = false;
  #last: string | undefined;

  /** @param out where results are written for people; undefined if for programs */
  constructor(out?: OutputStream) {
    this.#terminal = out?.isTTY === true ? out : undefined;
  }

  /** From now on every result replaces the one before. */
  begin(): void {
    this.#isWatching = true;
  }

  /** Whether to write a result. Prepares a terminal for it: ages change there, so that it is always written. */
  isNew(text: string): boolean {
    if (!this.#isWatching) return true;
    this.#terminal?.write(CLEAR);
    const isNew = this.#terminal !== undefined || text !== this.#last;
    this.#last = text;
    return isNew;
  }
}

/** Data with 64-bit integers as numbers where these are exact, else as texts. */
export function plainData(data: unknown): unknown {
  return JSON.parse(JSON.stringify(data ?? null, plainNumbers));
}

/** For `JSON.stringify`: converts 64-bit integers to JSON numbers where these are exact, else to strings. */
export function plainNumbers(_key: string, value: unknown): unknown {
  if (typeof value !== 'bigint') return value;
  const number = Number(value);
  return Number.isSafeInteger(number) ? number : value.toString();
}
