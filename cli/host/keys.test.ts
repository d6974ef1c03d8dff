import { expect, test } from '@jest/globals';
import { parseKeys } from './keys.ts';

test.each([
  { name: 'characters', given: 'q1?', want: ['q', '1', '?'] },
  { name: 'arrows of both keypad modes', given: '\u001b[A\u001bOB', want: ['up', 'down'] },
  { name: 'a lone escape', given: '\u001b', want: ['escape'] },
  {
    name: 'paging, home and end',
    given: '\u001b[5~\u001b[6~\u001b[H\u001bOF',
    want: ['page-up', 'page-down', 'home', 'end'],
  },
  { name: 'nothing for unknown sequences', given: '\u001b[200~\u001b[1;5Cx', want: ['x'] },
  {
    name: 'control characters',
    given: '\r\t\u0003\u0004\u007f\u0001',
    want: ['enter', 'tab', 'interrupt', 'interrupt', 'backspace'],
  },
])('parseKeys() reads $name', ({ given, want }) => {
  expect(parseKeys(given)).toEqual(want);
});
