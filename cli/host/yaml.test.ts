import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import YAML from 'yaml';
import { renderYaml } from './yaml.ts';

describe('renderYaml()', () => {
  test('writes nested objects and lists as kubectl does', () => {
    const value = {
      nodes: [{ name: 'n1', roles: ['worker', 'control-plane'], labels: {} }],
      none: [],
      at: null,
    };
    expect(renderYaml(value)).toBe(
      [
        'nodes:',
        '- name: n1',
        '  roles:',
        '  - worker',
        '  - control-plane',
        '  labels: {}',
        'none: []',
        'at: null',
      ].join('\n'),
    );
  });

  test.each([
    'no',
    'On',
    '1',
    '1e3',
    'E0',
    'e-12',
    '',
    ' a',
    'a: b',
    'a #b',
    '- a',
    '0x1',
    '~',
    'a:',
    "'",
    '2026-01-01',
    '.inf',
    '=',
    '<<',
  ])('quotes the text %j, which YAML would otherwise read as another value', (word) => {
    for (const version of ['1.1', '1.2'] as const)
      expect(YAML.parse(renderYaml({ [word]: word }), { version })).toEqual({ [word]: word });
  });

  test('renders text that YAML 1.1 and YAML 1.2 read as the same value as JSON', () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        const want: unknown = JSON.parse(JSON.stringify(value));
        for (const version of ['1.1', '1.2'] as const)
          expect(YAML.parse(renderYaml(value), { version, maxAliasCount: 0 })).toEqual(want);
      }),
      { numRuns: 500 },
    );
  });
});
