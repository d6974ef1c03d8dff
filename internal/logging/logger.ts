export type LogLevel = 'debug' | 'info' | 'warn' | 'error';

/** Plain JSON values. `Secret`s print as `[secret]`. */
export type LogFields = Readonly<Record<string, unknown>>;

/** A constant sentence and its facts. The path names the runnable that speaks. */
export interface Logger {
  readonly path: string;
  debug(message: string, fields?: LogFields): void;
  info(message: string, fields?: LogFields): void;
  warn(message: string, fields?: LogFields): void;
  error(message: string, fields?: LogFields): void;
  child(name: string): Logger;
}

export interface LogRecord {
  readonly timeMs: number;
  readonly level: LogLevel;
  readonly path: string;
  readonly message: string;
  readonly fields: LogFields;
}

export interface LogOptions {
  readonly path: string;
  readonly nowMs: () => number;
  readonly sink: (record: LogRecord) => void;
}

/** A logger that hands each record to a sink. */
export function createLogger(options: LogOptions): Logger {
  const write =
    (level: LogLevel) =>
    (message: string, fields: LogFields = {}) =>
      options.sink({ timeMs: options.nowMs(), level, path: options.path, message, fields });
  return {
    path: options.path,
    debug: write('debug'),
    info: write('info'),
    warn: write('warn'),
    error: write('error'),
    child: (name) =>
      createLogger({ ...options, path: options.path === '' ? name : `${options.path}.${name}` }),
  };
}

/** One record as one JSON line. Errors become their chain. */
export function formatJsonRecord(record: LogRecord): string {
  const { timeMs, level, path, message, fields } = record;
  return JSON.stringify(
    { time: new Date(timeMs).toISOString(), level, path, message, ...fields },
    replaceErrors,
  );
}

function replaceErrors(_key: string, value: unknown): unknown {
  if (value instanceof Error) return { name: value.name, message: value.message, cause: value.cause };
  if (typeof value === 'bigint') return value.toString();
  return value;
}
