import { expect, test } from '@jest/globals';
import { readFileSync } from 'node:fs';
import { REQUIRED_PROGRAMS } from '../internal/preflight/index.ts';

const page = readFileSync(new URL('../docs/machines.md', import.meta.url), 'utf8').replaceAll(/\s+/g, ' ');

test('docs/machines.md lists every program that preflight requires, and no other', () => {
  const [, listed = ''] = /every program that preflight requires \(([^)]*)\)/.exec(page) ?? [];
  expect(listed.split(', ')).toEqual(REQUIRED_PROGRAMS.map(({ program }) => `\`${program}\``));
});

test('docs/machines.md lists the packages of these programs as dependencies', () => {
  const [, listed = ''] = /\| ([^|]*) \| dependencies of the package/.exec(page) ?? [];
  expect(listed.split(', ')).toEqual([...new Set(REQUIRED_PROGRAMS.map(({ deb }) => deb)), 'dbus']);
});
