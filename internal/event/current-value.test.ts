import { expect, test } from '@jest/globals';
import { EventValue } from './event-value.ts';
import { currentValue } from './current-value.ts';

test('currentValue() returns the last value, and undefined before the first set()', () => {
  const value = new EventValue<string | undefined>();
  expect(currentValue(value)).toBeUndefined();
  value.set('a');
  expect(currentValue(value)).toBe('a');
  value.set(undefined);
  expect(currentValue(value)).toBeUndefined();
});
