import { formatJsonRecord, type LogRecord } from './logger.ts';

/** How much output is buffered while its reader is blocked; then lines are dropped. */
const MAX_WAITING_BYTES = 1024 * 1024;

/**
 * A log sink that never ends or blocks its program. A closed output (EPIPE) is ignored. While the reader is blocked,
 * lines are dropped, and the next written record reports how many.
 */
export function lineSink(output: LineOutput): (record: LogRecord) => void {
  let dropped = 0;
  ignoreOutputErrors(output);
  return (record) => {
    if (output.destroyed) return;
    if (output.writableLength > MAX_WAITING_BYTES) {
      dropped++;
      return;
    }
    if (dropped > 0) output.write(`${formatJsonRecord(droppedLines(record.timeMs, dropped))}\n`);
    dropped = 0;
    output.write(`${formatJsonRecord(record)}\n`);
  };
}

/** Ignores errors of an output whose reader may disappear: without a listener Node would end the program. */
export function ignoreOutputErrors(output: Pick<LineOutput, 'on'>): void {
  output.on('error', () => undefined);
}

function droppedLines(timeMs: number, lines: number): LogRecord {
  return {
    timeMs,
    level: 'warn',
    path: 'log',
    message: 'log output was blocked, lines dropped',
    fields: { lines },
  };
}

/** The part of a `Writable` that is used here. */
export interface LineOutput {
  readonly destroyed: boolean;
  /** Buffered bytes. */
  readonly writableLength: number;
  write(text: string): unknown;
  on(event: 'error', listener: (error: Error) => void): unknown;
}
