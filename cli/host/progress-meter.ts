import { formatDuration } from '../../internal/clock/index.ts';
import { formatBytes } from '../../internal/printable/index.ts';
import { formatShare, type StepShare } from './format.ts';

/** No rate is shown before this time: it would be a guess. */
const FIRST_RATE_MS = 2_000;
const BAR_COLUMNS = 10;

/**
 * Measures how fast the share of one step grows. The first value is the start: a resumed upload begins with the bytes
 * that are already there.
 */
export class ProgressMeter {
  #first: { readonly value: number; readonly atMs: number } | undefined;

  /** The share as text: "30%, 18s left, 12.4 MiB/s, 93.1 MiB of 311.0 MiB", with a bar before it if asked for. */
  textOf(done: StepShare, nowMs: number, options: { readonly bar: boolean }): string {
    const { value, atMs } = (this.#first ??= { value: done.value, atMs: nowMs });
    if (done.unit === 'steps') return formatShare(done);
    const perMs = nowMs - atMs < FIRST_RATE_MS ? 0 : (done.value - value) / (nowMs - atMs);
    const percent = done.of === 0 ? 100 : Math.min(100, Math.floor((done.value / done.of) * 100));
    const parts = [
      `${options.bar ? `${barOf(percent)} ` : ''}${percent}%`,
      ...(perMs > 0 ? [`${timeLeft(done, perMs)} left`] : []),
      ...(perMs > 0 && done.unit === 'bytes' ? [`${formatBytes(Math.round(perMs * 1000))}/s`] : []),
      formatShare(done),
    ];
    return parts.join(', ');
  }
}

function timeLeft({ of, value }: StepShare, perMs: number): string {
  return formatDuration(Math.max(1, Math.ceil((of - value) / perMs / 1000)) * 1000);
}

function barOf(percent: number): string {
  const full = Math.floor((percent * BAR_COLUMNS) / 100);
  return '█'.repeat(full) + '░'.repeat(BAR_COLUMNS - full);
}
