import { expect, test } from '@jest/globals';
import { parseSelector } from './label-selector.ts';

const labels = { zone: 'a', 'example.org/disk': 'ssd' };
const cases = [
  { selector: 'zone=a', want: true },
  { selector: 'zone==a', want: true },
  { selector: 'zone=b', want: false },
  { selector: 'zone!=b', want: true },
  { selector: 'none!=b', want: true },
  { selector: 'zone', want: true },
  { selector: '!zone', want: false },
  { selector: '!toString', want: true },
  { selector: 'toString', want: false },
  { selector: 'zone=a, example.org/disk=ssd', want: true },
  { selector: 'zone=a,example.org/disk=hdd', want: false },
];
test.each(cases)(
  'the labels zone=a and example.org/disk=ssd match the selector $selector: $want',
  ({ selector, want }) => {
    expect(parseSelector(selector)?.(labels)).toBe(want);
  },
);

test.each(['', ',', 'zone=a,', '=a', 'zone in (a,b)', 'zone=a b', 'zone>1', '-x', 'zone=!'])(
  'parseSelector() refuses %j',
  (selector) => {
    expect(parseSelector(selector)).toBeUndefined();
  },
);
