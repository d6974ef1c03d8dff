import { describe, expect, test } from '@jest/globals';
import type { AccessRule } from '../joinservice/curator/access/access-rules.ts';
import { findProblems, withRights } from './operator-rights.ts';

const brew: AccessRule = {
  lowestRole: 'operator',
  nodesToo: false,
  usedBy: '`tea brew`',
  signed: [{ what: 'milk', signs: '`grant`', verifiedBy: ['curator', 'signer'], test: 'tea.test.ts' }],
};

describe('withRights()', () => {
  const page =
    'a\n<!-- rights: written by `node .ci/operator-rights.ts`, from joinservice/curator/access/access-rules.ts -->\nold\n<!-- /rights -->\nz\n';

  test('withRights() replaces the table between the marker comments', () => {
    const written = withRights(page, { 'Tea.Brew': brew });
    expect(written).toContain(
      '| `Tea.Brew` | `operator` | no | milk: `grant` | curator, signer (`tea.test.ts`) | `tea brew` |',
    );
    expect(written).not.toContain('old');
  });

  test('withRights() names calls that need no certificate, and calls that no person may make', () => {
    const rules = {
      'Tea.Renew': { ...brew, byKeyAlone: true as const, signed: [] },
      'Tea.Report': { lowestRole: undefined, nodesToo: true, usedBy: 'agent' },
    };
    const written = withRights(page, rules);
    expect(written).toContain('| `Tea.Renew` | `operator`, also with the key alone | no |');
    expect(written).toContain('| `Tea.Report` | none | yes |');
  });
});

test('findProblems() names tests that do not exist', () => {
  expect(findProblems({ 'Tea.Brew': brew }, () => true)).toEqual([]);
  expect(findProblems({ 'Tea.Brew': brew }, () => false)).toEqual(['Tea.Brew: tea.test.ts does not exist']);
});
