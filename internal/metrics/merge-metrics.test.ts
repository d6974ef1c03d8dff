import { expect, test } from '@jest/globals';
import { mergeMetrics } from './merge-metrics.ts';

test('mergeMetrics() writes each family once, and distinguishes the samples of each process by label', () => {
  const page = (value: number): string =>
    [
      '# HELP a_total A.',
      '# TYPE a_total counter',
      `a_total ${value}`,
      `a_total{x="1 }",} ${value}`,
      '# TYPE b gauge',
      `b{} ${value} 17`,
      '',
    ].join('\n');
  expect(
    mergeMetrics([
      { labels: { etcd: 'state' }, page: page(1) },
      { labels: { etcd: 'kubernetes' }, page: page(2) },
    ]),
  ).toBe(
    [
      '# HELP a_total A.',
      '# TYPE a_total counter',
      'a_total{etcd="state"} 1',
      'a_total{x="1 }",etcd="state"} 1',
      'a_total{etcd="kubernetes"} 2',
      'a_total{x="1 }",etcd="kubernetes"} 2',
      '# TYPE b gauge',
      'b{etcd="state"} 1 17',
      'b{etcd="kubernetes"} 2 17',
      '',
    ].join('\n'),
  );
});

test('mergeMetrics() leaves out a process that did not respond', () => {
  expect(mergeMetrics([{ labels: { etcd: 'state' }, page: undefined }])).toBe('');
});
