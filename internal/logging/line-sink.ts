import { formatJsonRecord, type LogRecord } from './logger.ts';

/** What of a journal that takes nothing is kept in memory; then lines are left out. */
const MAX_WAITING_BYTES = 1024 * 1024;

/**
 * Writes records to the output of a program that must outlive who reads it. A journal that has gone (EPIPE) ends nothing:
 * nobody is left to be told. One that is stuck costs lines, and the next one it takes says how many.
 */
export function lineSink(output: LineOutput): (record: LogRecord) => void {
  let lost = 0;
  ignoreOutputErrors(output);
  return (record) => {
    if (output.destroyed) return;
    if (output.writableLength > MAX_WAITING_BYTES) {
      lost++;
      return;
    }
    if (lost > 0) output.write(`${formatJsonRecord(lostLines(record.timeMs, lost))}\n`);
    lost = 0;
    output.write(`${formatJsonRecord(record)}\n`);
  };
}

/** An output whose reader may go at any time; Node ends a program that listens to no such error. */
export function ignoreOutputErrors(output: Pick<LineOutput, 'on'>): void {
  output.on('error', () => undefined);
}

function lostLines(timeMs: number, lines: number): LogRecord {
  return {
    timeMs,
    level: 'warn',
    path: 'log',
    message: 'the journal was stuck: lines are lost',
    fields: { lines },
  };
}

/** A `Writable`, as far as it is needed. */
export interface LineOutput {
  readonly destroyed: boolean;
  /** Bytes that wait to be taken. */
  readonly writableLength: number;
  write(text: string): unknown;
  on(event: 'error', listener: (error: Error) => void): unknown;
}
