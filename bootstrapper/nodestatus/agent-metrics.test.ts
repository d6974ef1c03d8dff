import { expect, test } from '@jest/globals';
import { renderMetrics } from '../../internal/metrics/index.ts';
import { agentMetrics } from './agent-metrics.ts';

const NOW_MS = Date.UTC(2026, 0, 1);
const USAGE = { uptimeSeconds: 1, residentBytes: 2, heapBytes: 3, cpuMicroseconds: 4 };
const MACHINE = { cpuBusySeconds: 1.5, cpuSeconds: 20, memoryBytes: 8000, memoryAvailableBytes: 5000 };
const COMPARED = { atMs: NOW_MS, agreeing: ['n1', 'n2'], differing: [], notCompared: [] };

test('agentMetrics() contains the metrics that the alerts use: clock, failures, certificates, file systems and their growth, components, backups, API servers; and the load of the machine', () => {
  const runnable = { sinceMs: NOW_MS, restarts: 0, note: undefined };
  const text = renderMetrics(
    agentMetrics({
      ...{ version: '1.2.3', usage: USAGE, machine: MACHINE, nowMs: NOW_MS },
      tree: [
        { ...runnable, path: 'root.a', state: 'healthy', lastError: 'an earlier error' },
        { ...runnable, path: 'root.b', state: 'dead', lastError: 'no route' },
      ] as never,
      certificates: [{ name: '/ca.crt', notBeforeMs: NOW_MS - 60_000, notAfterMs: NOW_MS + 90_000 }],
      fileSystems: new Map([
        ['/var/lib/kubelet', { sizeBytes: 100, availableBytes: 40, inodes: 10, inodesFree: 9 }],
      ]),
      growths: [
        { kind: 'filesystem', name: '/var/lib/kubelet', measuredMs: 90_000_000, bytesPerDay: 86_400_000 },
        { kind: 'filesystem', name: '/var/lib/containerd', measuredMs: 5_000, bytesPerDay: undefined },
        { kind: 'etcd', name: 'state', measuredMs: 90_000_000, bytesPerDay: 0 },
      ],
      components: [{ name: 'kube-scheduler', isReady: false }],
      contents: {
        state: { sinceMs: 0, isLeader: true, compared: { ...COMPARED, differing: ['n3'] } },
        kubernetes: { sinceMs: 0, isLeader: false, compared: COMPARED },
      },
      backups: { periodMs: 3_600_000, newestMs: NOW_MS - 5_000, endsMs: NOW_MS + 7_000 },
      backupCopies: { isFailing: true },
      roundTrips: [{ address: '10.244.1.0', ms: 250 }],
      servers: [{ server: '192.0.2.1:6443', verdict: 'silent', connections: 3, sinceMs: 0, why: '' }],
    }),
  );
  const samples = text.split('\n').filter((line) => line !== '' && !/^#|^cluster_program/.test(line));
  expect(samples).toEqual([
    `cluster_node_time_seconds ${NOW_MS / 1000}`,
    'cluster_node_cpu_busy_seconds_total 1.5',
    'cluster_node_cpu_seconds_total 20',
    'cluster_node_memory_bytes 8000',
    'cluster_node_memory_available_bytes 5000',
    'cluster_agent_runnable_state{path="root.a",state="healthy"} 1',
    'cluster_agent_runnable_state{path="root.b",state="dead"} 1',
    'cluster_agent_runnable_restarts_total{path="root.a"} 0',
    'cluster_agent_runnable_restarts_total{path="root.b"} 0',
    'cluster_agent_runnable_failing{path="root.b"} 1',
    'cluster_certificate_expiry_seconds{certificate="/ca.crt"} 90',
    'cluster_certificate_lifetime_seconds{certificate="/ca.crt"} 150',
    'cluster_control_plane_component_ready{component="kube-scheduler"} 0',
    'cluster_filesystem_size_bytes{path="/var/lib/kubelet"} 100',
    'cluster_filesystem_available_bytes{path="/var/lib/kubelet"} 40',
    'cluster_filesystem_inodes{path="/var/lib/kubelet"} 10',
    'cluster_filesystem_inodes_free{path="/var/lib/kubelet"} 9',
    'cluster_filesystem_growth_measured_seconds{path="/var/lib/kubelet"} 90000',
    'cluster_filesystem_growth_measured_seconds{path="/var/lib/containerd"} 5',
    'cluster_filesystem_growth_bytes_per_second{path="/var/lib/kubelet"} 1000',
    'cluster_etcd_growth_measured_seconds{etcd="state"} 90000',
    'cluster_etcd_growth_bytes_per_second{etcd="state"} 0',
    'cluster_etcd_content_differs{etcd="state"} 1',
    'cluster_backup_period_seconds 3600',
    `cluster_backup_newest_proved_timestamp_seconds ${NOW_MS / 1000 - 5}`,
    `cluster_backup_schedule_end_timestamp_seconds ${NOW_MS / 1000 + 7}`,
    'cluster_backup_copies_failing 1',
    'cluster_pod_network_round_trip_seconds{peer="10.244.1.0"} 0.25',
    'cluster_balancer_upstream_verdict{server="192.0.2.1:6443",verdict="silent"} 1',
    'cluster_balancer_upstream_connections{server="192.0.2.1:6443"} 3',
  ]);
});
