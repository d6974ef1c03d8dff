import { describe, expect, test } from '@jest/globals';
import { Source } from './source.ts';

const failed = (...codes: readonly string[]) => ({ error: 'why', codes });

describe('Source.fail()', () => {
  test('keeps the last value, with the error and since when the source fails', () => {
    const source = new Source<string>();
    source.set('secret', 1);
    source.fail(failed('cluster-curator-unreachable'), 2);
    source.fail(failed('cluster-curator-unreachable'), 9);
    expect(source.reading).toEqual({
      value: 'secret',
      readMs: 1,
      failure: { text: 'why', sinceMs: 2, isRefused: false, isQuorumLost: false },
    });
  });

  test.each(['curator-denied', 'curator-not-member', 'curator-operator-unsigned', 'kube-refused'])(
    'drops the last value when the cluster refuses the source with %s',
    (code) => {
      const source = new Source<string>();
      source.set('secret', 1);
      source.fail(failed('outer', code), 2);
      expect(source.reading).toEqual({
        failure: { text: 'why', sinceMs: 2, isRefused: true, isQuorumLost: false },
      });
    },
  );

  test('tells a lost quorum from curators that do not respond', () => {
    const source = new Source<string>();
    source.fail(failed('cluster-quorum-lost', 'etcd-unavailable'), 2);
    expect(source.reading.failure).toMatchObject({ isQuorumLost: true, isRefused: false });
  });

  test('Source.set() ends the failure', () => {
    const source = new Source<string>();
    source.fail(failed('x'), 1);
    source.set('new', 2);
    expect(source.reading).toEqual({ value: 'new', readMs: 2 });
  });
});
