import { Mailbox } from '../../internal/event/index.ts';
import { formatJsonRecord, type LogRecord } from '../../internal/logging/index.ts';

/** Memory limit of the ring. Older lines are in the journal. */
const MAX_BYTES = 512 * 1024;
const MAX_LINES = 4_000;
/**
 * Number of lines that a slow follower may be behind. After that, the oldest lines are dropped and counted.
 */
const MAX_BEHIND = 1_000;
const MAX_LINE = 16 * 1024;

/**
 * Selects the lines of one runnable and, unless `exact`, of all runnables below it. An empty path means the
 * whole agent.
 */
export interface LogFilter {
  readonly path: string;
  readonly exact: boolean;
}

/** Lines in order, and the number of lines that were dropped before them. */
export interface LogLines {
  readonly lines: readonly string[];
  readonly dropped: number;
}

interface Kept {
  readonly path: string;
  readonly line: string;
}

interface Follower {
  readonly filter: LogFilter;
  readonly box: Mailbox<'more'>;
  lines: string[];
  dropped: number;
}

/**
 * Keeps the newest log lines of the agent by the path of their runnable, and serves followers of new lines.
 */
export class LogRing {
  #kept: Kept[] = [];
  #sizeBytes = 0;
  readonly #followers = new Set<Follower>();

  /** Adds a line. */
  add(record: LogRecord): void {
    const kept = { path: record.path, line: formatJsonRecord(record).slice(0, MAX_LINE) };
    this.#kept.push(kept);
    this.#sizeBytes += kept.line.length;
    if (this.#kept.length > MAX_LINES || this.#sizeBytes > MAX_BYTES) this.#forgetOldest();
    for (const follower of this.#followers) {
      if (!isWanted(kept.path, follower.filter)) continue;
      follower.lines.push(kept.line);
      if (follower.lines.length > MAX_BEHIND) {
        follower.lines.shift();
        follower.dropped++;
      }
      follower.box.push('more');
    }
  }

  /** The last `count` matching lines, oldest first. */
  last(filter: LogFilter, count: number): readonly string[] {
    if (count <= 0) return [];
    return this.#kept
      .filter(({ path }) => isWanted(path, filter))
      .slice(-count)
      .map(({ line }) => line);
  }

  /** Yields new matching lines, several at once if they have accumulated. */
  async *follow(filter: LogFilter, signal: AbortSignal): AsyncGenerator<LogLines, void, undefined> {
    const follower: Follower = { filter, box: new Mailbox(1), lines: [], dropped: 0 };
    this.#followers.add(follower);
    try {
      for await (const _ of follower.box.read(signal)) {
        const { lines, dropped } = follower;
        follower.lines = [];
        follower.dropped = 0;
        if (lines.length > 0) yield { lines, dropped };
      }
    } finally {
      this.#followers.delete(follower);
    }
  }

  /** Drops a tenth of the lines at once, so that a full ring is not copied for each line. */
  #forgetOldest(): void {
    const old = this.#kept.splice(0, Math.max(1, Math.floor(this.#kept.length / 10)));
    for (const { line } of old) this.#sizeBytes -= line.length;
  }
}

function isWanted(path: string, filter: LogFilter): boolean {
  if (filter.path === '' && !filter.exact) return true;
  return path === filter.path || (!filter.exact && path.startsWith(`${filter.path}.`));
}
