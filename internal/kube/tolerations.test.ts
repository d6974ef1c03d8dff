import { describe, expect, test } from '@jest/globals';
import { tolerationShape, toleratesTaint } from './tolerations.ts';

const taint = { key: 'spot', value: 'a', effect: 'NoExecute' };

describe('toleratesTaint()', () => {
  test.each([
    { name: 'no toleration', given: [], want: false },
    { name: 'every taint', given: [{ operator: 'Exists' }], want: true },
    { name: 'the key', given: [{ key: 'spot', operator: 'Exists' }], want: true },
    { name: 'key and value', given: [{ key: 'spot', value: 'a', effect: 'NoExecute' }], want: true },
    { name: 'another value', given: [{ key: 'spot', value: 'b' }], want: false },
    { name: 'another key', given: [{ key: 'gpu', operator: 'Exists' }], want: false },
    {
      name: 'another effect',
      given: [{ key: 'spot', operator: 'Exists', effect: 'NoSchedule' }],
      want: false,
    },
    { name: 'an unknown operator', given: [{ key: 'spot', operator: 'Gt', value: 'a' }], want: false },
    { name: 'a time limit', given: [{ operator: 'Exists', tolerationSeconds: 300 }], want: false },
    {
      name: 'a time limit first',
      given: [{ key: 'spot', operator: 'Exists', tolerationSeconds: 300 }, { operator: 'Exists' }],
      want: false,
    },
  ])('decides as Kubernetes does: $name', ({ given, want }) => {
    expect(toleratesTaint(tolerationShape.array().parse(given), taint)).toBe(want);
  });
});
