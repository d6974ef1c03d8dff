import { PHASES } from '../../initproto/phases.ts';
import { readText, type AppendPort, type FilePort } from '../../internal/file/index.ts';
import type { RecordedEvent } from './phase-event.ts';

const MAX_BYTES = 16 * 1024 * 1024;

/**
 * Stores one JSON line for each event, synced. Reading stops at the first invalid line, because a crash
 * damages only the last one.
 */
export class FileEventStore {
  readonly #files: FilePort & AppendPort;
  readonly #path: string;
  /** Whether the last append failed, which may have left a part of its line on disk. */
  #isTorn = false;

  constructor(files: FilePort & AppendPort, path: string) {
    this.#files = files;
    this.#path = path;
  }

  async load(): Promise<readonly RecordedEvent[]> {
    const text = await readText(this.#files, this.#path, MAX_BYTES);
    if (text === undefined) return [];
    const events: RecordedEvent[] = [];
    for (const line of text.split('\n')) {
      const event = parseLine(line, events.length + 1);
      if (event === undefined) break;
      events.push(event);
    }
    const kept = events.map((event) => `${JSON.stringify(event)}\n`).join('');
    if (kept !== text) await this.#files.writeAtomic(this.#path, kept);
    return events;
  }

  async append(event: RecordedEvent): Promise<void> {
    if (this.#isTorn) {
      const last = (await this.load()).at(-1)?.sequence ?? 0;
      this.#isTorn = false;
      // The failed append may have written the whole line.
      if (last >= event.sequence) return;
    }
    this.#isTorn = true;
    await this.#files.appendSynced(this.#path, `${JSON.stringify(event)}\n`);
    this.#isTorn = false;
  }
}

function parseLine(line: string, sequence: number): RecordedEvent | undefined {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch {
    return undefined;
  }
  const recorded = value as Partial<RecordedEvent> | null;
  if (typeof recorded !== 'object' || recorded === null || recorded.sequence !== sequence) return undefined;
  const known = PHASES.some((phase) => phase.name === recorded.event?.phase);
  return known && typeof recorded.timeMs === 'number' ? (recorded as RecordedEvent) : undefined;
}
