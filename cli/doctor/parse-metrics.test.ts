import { describe, expect, test } from '@jest/globals';
import { metricsFrom } from './parse-metrics.ts';

const fsync = (etcd: string, le: string, count: number): string =>
  `etcd_disk_wal_fsync_duration_seconds_bucket{le="${le}",etcd="${etcd}"} ${count}`;
const roundTrip = (to: string, le: string, count: number): string =>
  `etcd_network_peer_round_trip_time_seconds_bucket{To="${to}",le="${le}",etcd="state"} ${count}`;

const PAGE = [
  '# HELP etcd_server_has_leader Whether or not a leader exists.',
  'etcd_server_has_leader{etcd="state"} 1',
  'etcd_server_has_leader{etcd="kubernetes"} 0',
  'etcd_server_id{server_id="c",etcd="state"} 1',
  'process_start_time_seconds{etcd="state"} 1.76e+09',
  'etcd_mvcc_db_total_size_in_bytes{etcd="state"} 4.096e+06',
  'etcd_mvcc_db_total_size_in_use_in_bytes{etcd="state"} 1.024e+06',
  // 98 of 100, all but the two slowest, within 4 ms.
  fsync('state', '0.002', 97),
  fsync('state', '0.004', 98),
  fsync('state', '8.192', 99),
  fsync('state', '+Inf', 100),
  roundTrip('a', '0.0016', 10),
  roundTrip('a', '+Inf', 10),
  // 5 of 10 within 3.2 ms: the median is at most 3.2 ms.
  roundTrip('b', '0.0016', 4),
  roundTrip('b', '0.0032', 5),
  roundTrip('b', '0.8192', 10),
  roundTrip('b', '+Inf', 10),
  'cluster_balancer_upstream_verdict{server="192.0.2.1:6443",verdict="healthy"} 1',
  'cluster_balancer_upstream_verdict{server="192.0.2.2:6443",verdict="silent"} 1',
  'cluster_balancer_upstream_verdict{server="192.0.2.3:6443",verdict="healthy"} 0',
].join('\n');

describe('metricsFrom()', () => {
  test('reads the figures of both etcd members and of the API balancer', () => {
    expect(metricsFrom(PAGE)).toEqual({
      stateEtcd: {
        ...{ hasLeader: true, fsync: { ms: 4, within: 98, total: 100 }, peerRoundTripMs: 3.2 },
        ...{
          id: 'c',
          peers: [
            { id: 'a', roundTripMs: 1.6 },
            { id: 'b', roundTripMs: 3.2 },
          ],
        },
        ...{ dbSizeBytes: 4_096_000, dbInUseBytes: 1_024_000, startedMs: 1_760_000_000_000 },
      },
      kubernetesEtcd: { hasLeader: false },
      balancer: [
        { server: '192.0.2.1:6443', verdict: 'healthy' },
        { server: '192.0.2.2:6443', verdict: 'silent' },
      ],
    });
  });

  test('reads the growth of disks and databases, with and without a figure', () => {
    const page = [
      'cluster_filesystem_growth_measured_seconds{path="/var/lib/kubelet"} 90000',
      'cluster_filesystem_growth_measured_seconds{path="/var/lib/containerd"} 5',
      'cluster_filesystem_growth_bytes_per_second{path="/var/lib/kubelet"} 1000',
      'cluster_etcd_growth_measured_seconds{etcd="state"} 90000',
      'cluster_etcd_growth_bytes_per_second{etcd="state"} 0',
    ];
    expect(metricsFrom(page.join('\n')).growth).toEqual([
      { kind: 'filesystem', name: '/var/lib/kubelet', measuredMs: 90_000_000, bytesPerDay: 86_400_000 },
      { kind: 'filesystem', name: '/var/lib/containerd', measuredMs: 5_000 },
      { kind: 'etcd', name: 'state', measuredMs: 90_000_000, bytesPerDay: 0 },
    ]);
  });

  test('reports an etcd member without samples as not responding', () => {
    expect(metricsFrom('etcd_server_has_leader{etcd="state"} 1')).toEqual({
      stateEtcd: { hasLeader: true },
      balancer: [],
    });
  });

  const percentiles = [
    { name: '1% of many samples are above a bucket', counts: [990, 1_000], want: 4 },
    { name: 'more than 1% of many samples are above a bucket', counts: [989, 1_000], want: 8 },
    { name: 'two of a few samples are above a bucket', counts: [14, 16], want: 4 },
    { name: 'three of a few samples are above a bucket', counts: [13, 16], want: 8 },
    { name: 'both of two samples are above a bucket', counts: [0, 2], want: 8 },
    { name: 'one of two samples is above a bucket', counts: [1, 2], want: 4 },
    { name: 'one sample, above a bucket', counts: [0, 1], want: undefined },
    { name: 'more than 1% of the samples are above the last bucket', counts: [0, 0], infinite: 10, want: 8 },
    { name: 'no samples', counts: [0, 0], want: undefined },
  ];
  test.each(percentiles)(
    'judges the slowest fsyncs that count: $name',
    ({ counts: [low = 0, high = 0], infinite = high, want }) => {
      const text = [
        'etcd_server_has_leader{etcd="state"} 1',
        fsync('state', '0.004', low),
        fsync('state', '0.008', high),
        fsync('state', '+Inf', infinite),
      ].join('\n');
      expect(metricsFrom(text).stateEtcd?.fsync?.ms).toBe(want);
    },
  );

  test('counts only the samples that were added since the previous scrape', () => {
    const page = (low: number, high: number): string =>
      [
        'etcd_server_has_leader{etcd="state"} 1',
        ...[fsync('state', '0.004', low), fsync('state', '0.512', high), fsync('state', '+Inf', high)],
      ].join('\n');
    expect(metricsFrom(page(110, 150), page(10, 50)).stateEtcd?.fsync?.ms).toBe(4);
    expect(metricsFrom(page(110, 150)).stateEtcd?.fsync?.ms).toBe(512);
    // The process has restarted in between: its counters are smaller than before.
    expect(metricsFrom(page(5, 5), page(10, 50)).stateEtcd?.fsync?.ms).toBe(4);
    expect(metricsFrom(page(10, 50), page(10, 50)).stateEtcd).toEqual({ hasLeader: true });
  });

  test.each(['1e300', '2.5', '-4', 'NaN', '+Inf'])('ignores fsyncs of which a node counts %s', (count) => {
    const text = ['etcd_server_has_leader{etcd="state"} 1', fsync('state', '0.004', 1)].join('\n');
    const total = `etcd_disk_wal_fsync_duration_seconds_bucket{le="+Inf",etcd="state"} ${count}`;
    expect(metricsFrom(`${text}\n${total}`).stateEtcd).toEqual({ hasLeader: true });
  });

  test('ignores lines that are no samples, and values that are no numbers', () => {
    const text =
      'x y z\n{}\netcd_server_has_leader{etcd="state"} 1\netcd_mvcc_db_total_size_in_bytes{etcd="state"} NaN';
    expect(metricsFrom(text).stateEtcd).toEqual({ hasLeader: true });
  });
});
