import process, { stdout } from 'node:process';
import { once } from 'node:events';
import { EventValue } from '../../../internal/event/index.ts';
import { createLogger, formatJsonRecord } from '../../../internal/logging/index.ts';

const LINES = 1_000_000;
const LINES_AT_ONCE = 1_000;
/**
 * Number of lines after which this process collects garbage. The real agent looks at its heap every 20 seconds
 * (`collectGarbageRegularly()`), and writes fewer lines in this time.
 */
const LINES_PER_COLLECTION = 100_000;
const CHANGES = 10_000;
const WATCHERS = 8;
const RUNS = 2;
const IDLE_MS = 5_000;
const never = new AbortController().signal;

/** The process of the long-running test. The process tells its parent when to measure. */
const log = createLogger({
  path: 'agent',
  nowMs: () => Date.now(),
  sink: (record) => void stdout.write(`${formatJsonRecord(record)}\n`),
}).child('worker');

async function writeLines(count: number): Promise<void> {
  for (let line = 0; line < count; line++) {
    log.info('phase finished', { phase: 'images', line, error: new Error(`refused ${line}`) });
    if (line % LINES_PER_COLLECTION === 0) globalThis.gc?.();
    if (line % LINES_AT_ONCE === 0) await new Promise((resolve) => setImmediate(resolve));
  }
}

async function changeValues(count: number): Promise<void> {
  const value = new EventValue<{ readonly count: number }>();
  const seen = Array.from({ length: WATCHERS }, async () => {
    using watcher = value.watch();
    for (;;) if ((await watcher.next(never)).count === count) return;
  });
  for (let n = 1; n <= count; n++) {
    value.set({ count: n });
    await Promise.resolve();
  }
  await Promise.all(seen);
}

/** Collects garbage first, so that only retained memory is measured. */
async function measured(): Promise<void> {
  globalThis.gc?.();
  await new Promise((resolve) => setTimeout(resolve, IDLE_MS));
  globalThis.gc?.();
  process.send?.('measure');
  await once(process, 'message');
}

await measured();
for (let run = 0; run < RUNS; run++) {
  await writeLines(LINES);
  await changeValues(CHANGES);
  await measured();
}
process.disconnect();
