import { describe, expect, test } from '@jest/globals';
import { renderListing, type Listing } from './listing.ts';

const listing: Listing<{ name: string; id: string }> = {
  data: {},
  items: [
    { name: 'n1', id: 'a' },
    { name: 'node-two', id: 'b' },
  ],
  nameOf: ({ name }) => name,
  empty: 'No nodes.',
  columns: [
    { title: 'NAME', textOf: ({ name }) => name },
    { title: 'ID', textOf: ({ id }) => id, isWide: true },
    { title: 'X', textOf: () => 'x' },
  ],
};
const none = { ...listing, items: [] };
const { empty: _, ...withoutText } = none;

describe('renderListing()', () => {
  const cases = [
    {
      name: 'a table',
      given: listing,
      format: 'table',
      headers: true,
      want: 'NAME      X\nn1        x\nnode-two  x',
    },
    {
      name: 'wide columns',
      given: listing,
      format: 'wide',
      headers: true,
      want: 'NAME      ID  X\nn1        a   x\nnode-two  b   x',
    },
    {
      name: 'wide columns if the listing always has them',
      given: { ...listing, wide: true },
      format: 'table',
      headers: false,
      want: 'n1        a   x\nnode-two  b   x',
    },
    {
      name: 'a table without a header',
      given: listing,
      format: 'table',
      headers: false,
      want: 'n1        x\nnode-two  x',
    },
    { name: 'names', given: listing, format: 'name', headers: true, want: 'n1\nnode-two' },
    {
      name: 'the given text for an empty list',
      given: none,
      format: 'table',
      headers: true,
      want: 'No nodes.',
    },
    {
      name: 'only a header for an empty list without a given text',
      given: withoutText,
      format: 'table',
      headers: true,
      want: 'NAME  X',
    },
    {
      name: 'nothing for an empty list without a header',
      given: none,
      format: 'table',
      headers: false,
      want: '',
    },
    { name: 'nothing for an empty list of names', given: none, format: 'name', headers: true, want: '' },
    {
      name: 'each name on one line',
      given: { ...listing, items: [{ name: 'a\nb', id: '' }] },
      format: 'name',
      headers: true,
      want: expect.not.stringContaining('\n'),
    },
  ] as const;
  test.each(cases)('renders $name', ({ given, format, headers, want }) => {
    expect(renderListing(given, { format, headers })).toEqual(want);
  });
});
