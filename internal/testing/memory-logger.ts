import { createLogger, type Logger, type LogRecord } from '../logging/index.ts';

/** A logger whose records a test can read. */
export function createMemoryLogger(path = ''): { readonly log: Logger; readonly records: LogRecord[] } {
  const records: LogRecord[] = [];
  return { log: createLogger({ path, nowMs: () => 0, sink: (record) => records.push(record) }), records };
}
