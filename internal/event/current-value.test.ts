import { expect, test } from '@jest/globals';
import { EventValue } from './event-value.ts';
import { currentValue } from './current-value.ts';

test('valueOf() is what was set last, and undefined before that', () => {
  const value = new EventValue<string | undefined>();
  expect(currentValue(value)).toBeUndefined();
  value.set('a');
  expect(currentValue(value)).toBe('a');
  value.set(undefined);
  expect(currentValue(value)).toBeUndefined();
});
