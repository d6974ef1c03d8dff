import { format, inspect } from 'node:util';
import { expect, test } from '@jest/globals';
import { createLogger, formatJsonRecord, type LogRecord } from '../logging/index.ts';
import { Secret } from './index.ts';

const PLAIN = 'correct horse battery staple';
const secret = new Secret(PLAIN);

test('reveal() returns the value', () => {
  const key = new Uint8Array([1, 2, 3]);
  expect(new Secret(key).reveal()).toBe(key);
});

const prints: readonly { name: string; print: () => string }[] = [
  { name: 'String()', print: () => String(secret) },
  { name: 'a template literal', print: () => `${String(secret)}` },
  { name: 'a string concatenation', print: () => ''.concat(secret as unknown as string) },
  { name: 'JSON.stringify()', print: () => JSON.stringify({ secret }) },
  { name: 'inspect()', print: () => inspect({ deep: { secret } }, { depth: 9, showHidden: true }) },
  { name: 'format(%s)', print: () => format('%s', secret) },
  { name: 'format(%o)', print: () => format('%o', secret) },
  { name: 'format(%j)', print: () => format('%j', secret) },
  { name: 'an error message', print: () => new Error(`using ${String(secret)}`).message },
];
test.each(prints)('$name prints [secret] instead of the value', ({ print }) => {
  expect(print()).toContain('[secret]');
  expect(print()).not.toContain('horse');
});

test('copies and property names of a secret do not contain its value', () => {
  expect(JSON.stringify({ ...secret })).toBe('{}');
  expect(Reflect.ownKeys(secret)).toEqual([]);
  expect(inspect(structuredClone(secret))).not.toContain('horse');
});

test('a log line with a secret among its fields shows [secret]', () => {
  const lines: string[] = [];
  const sink = (record: LogRecord): void => void lines.push(formatJsonRecord(record));
  createLogger({ path: 'a', nowMs: () => 0, sink }).info('unlocking', {
    key: secret,
    nested: { key: secret },
  });
  expect(JSON.parse(lines[0] ?? '')).toMatchObject({ key: '[secret]', nested: { key: '[secret]' } });
});
