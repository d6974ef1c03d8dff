/** Severity of a record. */
type LogLevel = 'debug' | 'info' | 'warn' | 'error';

/** Plain JSON values. `Secret`s print as `[secret]`. */
export type LogFields = Readonly<Record<string, unknown>>;

/** Logs constant messages with fields. The path names the runnable that logs. */
export interface Logger {
  readonly path: string;
  debug(message: string, fields?: LogFields): void;
  info(message: string, fields?: LogFields): void;
  warn(message: string, fields?: LogFields): void;
  error(message: string, fields?: LogFields): void;
  child(name: string): Logger;
}

/** One log record. */
export interface LogRecord {
  readonly timeMs: number;
  readonly level: LogLevel;
  readonly path: string;
  readonly message: string;
  readonly fields: LogFields;
}

/**
 * The hierarchical name of a logger (`path`, such as "root.roleserve.kubernetes"), its clock, and where its
 * records go.
 */
export interface LogOptions {
  readonly path: string;
  readonly nowMs: () => number;
  readonly sink: (record: LogRecord) => void;
}

/** A logger that passes each record to a sink. */
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

const RESERVED: readonly string[] = ['time', 'level', 'path', 'message'];

/**
 * One record as one JSON line. Errors become their cause chain, bytes become hex. A field named like a part of the record
 * gets the suffix `_`, so that no field can pretend to be the path or level. When a value cannot be serialized, the
 * record is written without its fields; the caller never gets an error.
 */
export function formatJsonRecord(record: LogRecord): string {
  const { timeMs, level, path, message } = record;
  const head = { time: new Date(timeMs).toISOString(), level, path, message };
  const fields = Object.entries(record.fields).map(
    ([name, value]) => [RESERVED.includes(name) ? `${name}_` : name, value] as const,
  );
  try {
    return JSON.stringify({ ...head, ...Object.fromEntries(fields) }, printable);
  } catch (error) {
    return JSON.stringify({ ...head, unprintable: fields.map(([name]) => name), why: String(error) });
  }
}

/** A JSON replacer. Looks at the value before its `toJSON()`, which turns buffers into lists of numbers. */
function printable(this: unknown, key: string, value: unknown): unknown {
  const raw = (this as Record<string, unknown>)[key];
  if (raw instanceof Uint8Array) return Buffer.from(raw).toString('hex');
  if (Error.isError(raw)) {
    const code = 'code' in raw ? { code: raw.code } : {};
    return { name: raw.name, ...code, message: raw.message, cause: raw.cause };
  }
  if (typeof value === 'bigint') return value.toString();
  return value;
}
