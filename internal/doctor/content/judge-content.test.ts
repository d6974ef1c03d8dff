import { expect, test } from '@jest/globals';
import { judgeContent } from './judge-content.ts';

test.each([
  { name: 'three equal members', hashes: [7, 7, 7], want: ['abc', '', ''] },
  { name: 'one member that differs from two', hashes: [7, 8, 7], want: ['ac', 'b', ''] },
  { name: 'the own member, if it differs from the others', hashes: [8, 7, 7], want: ['bc', 'a', ''] },
  { name: 'two members that differ from each other', hashes: [7, 8], want: ['', 'ab', ''] },
  { name: 'three members that all differ', hashes: [7, 8, 9], want: ['', 'abc', ''] },
  { name: 'four members, two of each kind', hashes: [7, 8, 7, 8], want: ['', 'acbd', ''] },
  { name: 'two equal members while one is down', hashes: [7, undefined, 7], want: ['ac', '', 'b'] },
  { name: 'two different members while one is down', hashes: [7, undefined, 8], want: ['', 'ac', 'b'] },
  {
    name: 'two of five that differ from one, while two are down: the majority is of all members',
    hashes: [7, 7, 8, undefined, undefined],
    want: ['', 'abc', 'de'],
  },
  { name: 'a member alone, while the others are down', hashes: [7, undefined], want: ['a', '', 'b'] },
])('judgeContent() judges $name', ({ hashes, want }) => {
  const members = hashes.map((hash, index) => ({ name: 'abcde'[index] ?? '', hash }));
  const { agreeing, differing, notCompared } = judgeContent(members);
  expect([agreeing, differing, notCompared].map((names) => names.join(''))).toEqual(want);
});
