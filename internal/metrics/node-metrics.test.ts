import { expect, test } from '@jest/globals';
import { renderNodeMetrics } from './node-metrics.ts';
import type { Page } from './serve-metrics.ts';

const HEALTHY: Readonly<Record<string, Page>> = {
  'http://127.0.0.1:10248/healthz': { ok: true, text: 'ok' },
  'http://127.0.0.1:9096/metrics': page('cluster_program_info{program="joinservice"} 1'),
  'http://127.0.0.1:2384/metrics': page('etcd_server_has_leader 1'),
  'http://127.0.0.1:2381/metrics': page('etcd_server_has_leader 1'),
  'http://127.0.0.1:2384/health?serializable=true': { ok: true, text: '{"health":"true"}' },
  'http://127.0.0.1:2381/health?serializable=true': { ok: true, text: '{"health":"true"}' },
};

function page(sample: string): Page {
  return { ok: true, text: `# TYPE ${sample.replace(/[{ ].*/, '')} gauge\n${sample}\n` };
}

/** The samples of a node, with changed responses of its programs. */
async function samplesOf(options: {
  readonly isControlPlane?: boolean;
  readonly changes?: Readonly<Record<string, Page | undefined>>;
  readonly agent?: string | undefined;
}): Promise<readonly string[]> {
  const { isControlPlane = true, changes = {} } = options;
  const agent = 'agent' in options ? options.agent : page('cluster_program_info{program="agent"} 1').text;
  const pages = { ...HEALTHY, ...changes };
  const text = await renderNodeMetrics({
    agent: async () => agent,
    isControlPlane,
    read: async (url) => pages[url],
  });
  return text.split('\n').filter((line) => line !== '' && !line.startsWith('#'));
}

const isUp = (line: string): boolean => line.startsWith('cluster_program_up') && line.endsWith(' 1');

test('renderNodeMetrics() returns the metrics of each program of a control plane once, and reports that all programs respond', async () => {
  const samples = await samplesOf({});
  expect(samples).toEqual([
    'cluster_program_info{program="agent"} 1',
    'cluster_program_info{program="joinservice"} 1',
    'cluster_program_up{program="agent"} 1',
    'cluster_program_up{program="kubelet"} 1',
    'cluster_program_up{program="joinservice"} 1',
    'cluster_program_up{program="etcd",etcd="state"} 1',
    'cluster_program_up{program="etcd",etcd="kubernetes"} 1',
    'cluster_etcd_alarm{etcd="state",alarm="NOSPACE"} 0',
    'cluster_etcd_alarm{etcd="state",alarm="CORRUPT"} 0',
    'cluster_etcd_alarm{etcd="kubernetes",alarm="NOSPACE"} 0',
    'cluster_etcd_alarm{etcd="kubernetes",alarm="CORRUPT"} 0',
    'etcd_server_has_leader{etcd="state"} 1',
    'etcd_server_has_leader{etcd="kubernetes"} 1',
  ]);
});

test('renderNodeMetrics() expects neither join service nor etcd on a worker', async () => {
  expect(await samplesOf({ isControlPlane: false })).toEqual([
    'cluster_program_info{program="agent"} 1',
    'cluster_program_up{program="agent"} 1',
    'cluster_program_up{program="kubelet"} 1',
  ]);
});

test.each([
  { name: 'the agent', agent: undefined, want: '{program="agent"}' },
  {
    name: 'the kubelet',
    changes: { 'http://127.0.0.1:10248/healthz': undefined },
    want: '{program="kubelet"}',
  },
  {
    name: 'an unhealthy kubelet',
    changes: { 'http://127.0.0.1:10248/healthz': { ok: false, text: 'syncloop' } },
    want: '{program="kubelet"}',
  },
  {
    name: 'the join service',
    changes: { 'http://127.0.0.1:9096/metrics': undefined },
    want: '{program="joinservice"}',
  },
  {
    name: 'the member of the Kubernetes etcd',
    changes: { 'http://127.0.0.1:2381/metrics': undefined },
    want: '{program="etcd",etcd="kubernetes"}',
  },
])('renderNodeMetrics() reports that $name does not respond', async ({ want, name: _name, ...options }) => {
  const samples = await samplesOf(options);
  expect(samples).toContain(`cluster_program_up${want} 0`);
  expect(samples.filter(isUp)).toHaveLength(4);
});

test('renderNodeMetrics() reports that an etcd is full', async () => {
  const full = { ok: false, text: '{"health":"false","reason":"ALARM NOSPACE"}' };
  const samples = await samplesOf({ changes: { 'http://127.0.0.1:2381/health?serializable=true': full } });
  expect(samples).toContain('cluster_etcd_alarm{etcd="kubernetes",alarm="NOSPACE"} 1');
  expect(samples).toContain('cluster_etcd_alarm{etcd="state",alarm="NOSPACE"} 0');
});
