import { expect, test } from '@jest/globals';
import { EventValue } from './event-value.ts';
import { valueOf } from './value-of.ts';

test('valueOf() is what was set last, and undefined before that', () => {
  const value = new EventValue<string | undefined>();
  expect(valueOf(value)).toBeUndefined();
  value.set('a');
  expect(valueOf(value)).toBe('a');
  value.set(undefined);
  expect(valueOf(value)).toBeUndefined();
});
