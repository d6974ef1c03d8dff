import { describe, expect, test } from '@jest/globals';
import { UsageReader } from './usage.ts';

const page = (busy: number, all: number): string =>
  [
    `cluster_node_cpu_busy_seconds_total ${busy}`,
    `cluster_node_cpu_seconds_total ${all}`,
    'cluster_node_memory_bytes 1000',
    'cluster_node_memory_available_bytes 250',
    'cluster_filesystem_size_bytes{path="/a"} 10',
    'cluster_filesystem_available_bytes{path="/a"} 4',
    'cluster_filesystem_size_bytes{path="/b"} 10',
  ].join('\n');

describe('UsageReader.read()', () => {
  test('reads memory and disks at once, and the share of the processors from two readings', () => {
    const reader = new UsageReader();
    const first = reader.read('n1', page(10, 100));
    expect(first).toEqual({
      memoryBytes: 1000,
      memoryAvailableBytes: 250,
      disks: [{ path: '/a', sizeBytes: 10, availableBytes: 4 }],
    });
    expect(reader.read('n1', page(15, 120))).toMatchObject({ cpuShare: 0.25 });
  });

  test('takes more than all time as all of it: the idle time of Linux can go back', () => {
    const reader = new UsageReader();
    reader.read('n1', page(10, 100));
    expect(reader.read('n1', page(21, 110)).cpuShare).toBe(1);
  });

  test('knows no share after a restart of the machine', () => {
    const reader = new UsageReader();
    reader.read('n1', page(10, 100));
    expect(reader.read('n1', page(1, 2)).cpuShare).toBeUndefined();
  });

  test.each(['', 'cluster_node_memory_bytes NaN', 'cluster_node_memory_bytes -5', 'x'.repeat(100_000)])(
    'takes no figure from the page %.40j of a hostile node',
    (text) => {
      expect(new UsageReader().read('n1', text)).toEqual({ disks: [] });
    },
  );
});
