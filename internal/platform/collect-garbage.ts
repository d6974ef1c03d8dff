import { getHeapStatistics } from 'node:v8';
import { MINUTE_MS, type Clock } from '../clock/index.ts';

const FIRST_MS = MINUTE_MS;
const LOOK_MS = 20_000;
/** The memory of an idle process may grow by this much until its garbage is collected. */
const GROWTH_BYTES = 2 * 1024 ** 2;

/**
 * Collects garbage a minute after the start, because most objects that only the start needs are garbage by then. Collects again, until the
 * signal fires, whenever the heap has grown by 2 MiB since: V8 alone collects the old part of the heap only after it has grown by tens of
 * MB, so the memory of a process with little to do would grow for an hour before it shrinks again. `last-resort` also moves objects together
 * and returns the free pages; it takes twice as long as a regular collection, about 0.1 s. Does nothing unless Node runs with `--expose-gc`.
 * @param usedBytes how much of the heap is in use, garbage included
 */
export async function collectGarbageRegularly(
  clock: Pick<Clock, 'sleep'>,
  signal: AbortSignal,
  usedBytes: () => number = () => getHeapStatistics().used_heap_size,
): Promise<void> {
  let afterBytes = -Infinity;
  for (let waitMs = FIRST_MS; !signal.aborted; waitMs = LOOK_MS) {
    await clock.sleep(waitMs, signal).catch(() => undefined);
    if (signal.aborted || usedBytes() - afterBytes < GROWTH_BYTES) continue;
    globalThis.gc?.({ type: 'major', flavor: 'last-resort', execution: 'sync' });
    afterBytes = usedBytes();
  }
}
