import { describe, expect, test } from '@jest/globals';
import { elfFile } from '../../testing/index.ts';
import { parseElfNeeds } from './parse-elf.ts';

const LOADER = '/lib64/ld-linux-x86-64.so.2';

describe('parseElfNeeds()', () => {
  test.each([
    { name: 'a static program', given: {}, want: { interpreter: undefined, libraries: [] } },
    {
      name: 'a program with libraries',
      given: { interpreter: LOADER, libraries: ['libmnl.so.0', 'libc.so.6'] },
      want: { interpreter: LOADER, libraries: ['libmnl.so.0', 'libc.so.6'] },
    },
    {
      name: 'a library',
      given: { libraries: ['libc.so.6'] },
      want: { interpreter: undefined, libraries: ['libc.so.6'] },
    },
  ])('parseElfNeeds() returns the interpreter and libraries that $name needs', ({ given, want }) => {
    expect(parseElfNeeds(elfFile(given))).toEqual(want);
  });

  const good = Buffer.from(elfFile({ interpreter: LOADER, libraries: ['libc.so.6'] }));
  test.each([
    { name: 'an empty file', given: Buffer.alloc(0) },
    { name: 'a shell script', given: Buffer.from('#!/bin/sh\n') },
    { name: 'a 32-bit program', given: edited(4, 1) },
    { name: 'a big-endian program', given: edited(5, 2) },
    { name: 'a program that is cut off in its headers', given: good.subarray(0, 100) },
    { name: 'a program that is cut off in its tables', given: good.subarray(0, good.length - 20) },
    { name: 'a program whose segments are outside of the file', given: edited(38, 0x7f) },
  ])('parseElfNeeds() refuses $name', ({ given }) => {
    expect(() => parseElfNeeds(given)).toThrow();
  });

  function edited(at: number, byte: number): Buffer {
    const copy = Buffer.from(good);
    copy[at] = byte;
    return copy;
  }
});
