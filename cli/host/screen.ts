import type { OutputStream } from './host.ts';

/** Clears a terminal and moves to its first cell. */
const CLEAR = '\u001b[2J\u001b[H';

/** Results that replace each other, for commands that watch. */
export class Screen {
  readonly #terminal: OutputStream | undefined;
  #isWatching = false;
  #last: string | undefined;

  /** @param out stream of the results if people read them; undefined if programs read them */
  constructor(out?: OutputStream) {
    this.#terminal = out?.isTTY === true ? out : undefined;
  }

  /** From now on every result replaces the one before. */
  begin(): void {
    this.#isWatching = true;
  }

  /**
   * Whether to write a result. On a terminal always, because ages in the text change; the terminal is cleared first.
   */
  isNew(text: string): boolean {
    if (!this.#isWatching) return true;
    this.#terminal?.write(CLEAR);
    const isNew = this.#terminal !== undefined || text !== this.#last;
    this.#last = text;
    return isNew;
  }
}

/** Data as programs get it (`forPrograms`). */
export function plainData(data: unknown): unknown {
  return JSON.parse(JSON.stringify(data ?? null, forPrograms));
}

/**
 * For `JSON.stringify`: converts 64-bit integers to JSON numbers where these are exact, else to strings, and points in time to
 * texts of RFC 3339: `seenMs: 1767225600000` becomes `seen: "2026-01-01T00:00:00.000Z"`.
 */
export function forPrograms(_key: string, value: unknown): unknown {
  if (typeof value === 'bigint') {
    const number = Number(value);
    return Number.isSafeInteger(number) ? number : value.toString();
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, member]: [string, unknown]) =>
      name.endsWith('Ms') && isInstant(member)
        ? [name.slice(0, -'Ms'.length), new Date(Number(member)).toISOString()]
        : [name, member],
    ),
  );
}

/** September 2001 and the end of the year 9999, in ms since 1970: no duration is that long. */
const INSTANTS_MS = { first: 1e12, last: 253_402_300_799_999 };

function isInstant(value: unknown): boolean {
  return (
    (typeof value === 'number' || typeof value === 'bigint') &&
    value >= INSTANTS_MS.first &&
    value <= INSTANTS_MS.last
  );
}
