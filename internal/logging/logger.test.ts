import { describe, expect, test } from '@jest/globals';
import { CodedError } from '../errors/index.ts';
import { createLogger, formatJsonRecord, type LogFields, type LogRecord } from './index.ts';

function logged(speak: (log: ReturnType<typeof createLogger>) => void, path = 'root'): LogRecord[] {
  const records: LogRecord[] = [];
  speak(createLogger({ path, nowMs: () => 1000, sink: (record) => records.push(record) }));
  return records;
}

const line = (fields: LogFields): Record<string, unknown> =>
  JSON.parse(
    formatJsonRecord({ timeMs: 0, level: 'info', path: 'root', message: 'saying', fields }),
  ) as Record<string, unknown>;

describe('createLogger()', () => {
  test('passes level, time, path, message and fields to its sink', () => {
    expect(logged((log) => log.warn('waiting', { forMs: 5 }))).toEqual([
      { timeMs: 1000, level: 'warn', path: 'root', message: 'waiting', fields: { forMs: 5 } },
    ]);
  });

  test.each(['debug', 'info', 'warn', 'error'] as const)('logs at level %s', (level) => {
    expect(logged((log) => log[level]('x'))).toMatchObject([{ level, fields: {} }]);
  });

  test('names children by their path', () => {
    expect(logged((log) => log.child('a').child('b').info('x'))).toMatchObject([{ path: 'root.a.b' }]);
    expect(logged((log) => log.child('a').info('x'), '')).toMatchObject([{ path: 'a' }]);
  });
});

describe('formatJsonRecord()', () => {
  test('writes one JSON line: first time, level, path and message, then the fields', () => {
    const record: LogRecord = {
      timeMs: 0,
      level: 'info',
      path: 'root',
      message: 'two\nlines',
      fields: { b: 1 },
    };
    expect(formatJsonRecord(record)).toBe(
      '{"time":"1970-01-01T00:00:00.000Z","level":"info","path":"root","message":"two\\nlines","b":1}',
    );
  });

  test.each(['time', 'level', 'path', 'message'])('renames a field with the reserved name %s', (name) => {
    const printed = line({ [name]: 'forged' });
    expect(printed[name]).not.toBe('forged');
    expect(printed[`${name}_`]).toBe('forged');
  });

  test('prints an error as its cause chain, with its code', () => {
    const errors = {
      'a-b': { fault: 'system', exit: 'internal', retryable: true, meaning: 'm', fix: 'f' },
    } as const;
    const error = new CodedError(errors, 'a-b', 'dialing', { cause: new Error('refused') });
    expect(line({ error })).toMatchObject({
      error: {
        name: 'CodedError',
        code: 'a-b',
        message: 'dialing',
        cause: { name: 'Error', message: 'refused' },
      },
    });
  });

  test.each<{ name: string; value: unknown; want: unknown }>([
    { name: 'a bigint', value: 2n ** 64n, want: '18446744073709551616' },
    { name: 'bytes', value: new Uint8Array([0, 255]), want: '00ff' },
    { name: 'a Buffer', value: Buffer.from('A'), want: '41' },
    { name: 'a date', value: new Date(0), want: '1970-01-01T00:00:00.000Z' },
  ])('prints $name', ({ value, want }) => {
    expect(line({ value, nested: { value } })).toMatchObject({ value: want, nested: { value: want } });
  });

  const cyclic: Record<string, unknown> = {};
  cyclic['self'] = cyclic;
  test.each<{ name: string; value: unknown }>([
    { name: 'a cycle', value: cyclic },
    {
      name: 'a value whose toJSON() throws',
      value: {
        toJSON: () => {
          throw new Error('no');
        },
      },
    },
  ])('writes a record with $name and names the dropped fields', ({ value }) => {
    expect(line({ fine: 1, value })).toMatchObject({ message: 'saying', unprintable: ['fine', 'value'] });
  });
});
