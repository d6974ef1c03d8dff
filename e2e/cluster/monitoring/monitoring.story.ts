import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { test, type TestContext } from 'node:test';
import { parse, stringify } from 'yaml';
import { DOCTOR_CHECKS } from '../../../internal/doctor/index.ts';
import { createHarness } from '../../machines/harness.ts';
import { ChartHarness } from '../charts/chart-harness.ts';
import { eventually } from '../harness/node-shell.ts';
import { StoryCluster } from '../harness/story-cluster.ts';
import { PrometheusPod, type ActiveAlert } from './prometheus-pod.ts';

const NAME = 'monitoring';
const NAMESPACE = 'monitoring';
const NODES = ['n1', 'n2', 'n3', 'n4'] as const;
const EXPORTER = 9097;
/**
 * Alerts about the speed and free space of the host. Other programs use the host too, so the story prints these
 * alerts and does not assert them.
 */
const OF_THE_HOST: readonly string[] = [
  'ClusterFsync',
  'ClusterLatency',
  'ClusterNodeLatency',
  'ClusterDiskSpace',
  'ClusterDiskInodes',
];
/** Metrics that exist only while something fails, once backups are scheduled, or after a day of measurements. */
const NOT_ALWAYS: readonly string[] = [
  'cluster_agent_runnable_failing',
  'cluster_backup_copies_failing',
  'cluster_backup_newest_proved_timestamp_seconds',
  'cluster_backup_period_seconds',
  'cluster_backup_schedule_end_timestamp_seconds',
  'cluster_filesystem_growth_bytes_per_second',
];
/**
 * Checks whose metric expression has no time series in this story: only while something fails, after backups are
 * scheduled, after a day of measurements, or in a large database.
 */
const WITHOUT_FIGURE: readonly string[] = [
  'doctor-agent',
  'doctor-backup',
  'doctor-backup-copies',
  'doctor-backup-schedule',
  'doctor-disk-growth',
  'doctor-etcd-unused',
  'doctor-node-error',
];
const FILES = resolve(import.meta.dirname, '../../../cli/charts/monitoring/files');
/** Longer than the `for` duration of every alert about a failing part of an agent. */
const LONG_MINUTES = 6;
/** Longer than the `for` duration of the alerts about programs that do not respond. */
const SHORT_MINUTES = 3;
const POLL_MS = 15_000;
/** Prints the status with which the exporter of a node answers a request with this token. */
const ASK = `
const [host, token] = process.argv.slice(1);
const headers = token === undefined ? {} : { authorization: 'Bearer ' + token };
require('node:https').get({ host, port: ${EXPORTER}, path: '/metrics', headers, rejectUnauthorized: false },
  (answer) => { console.log(answer.statusCode); answer.destroy(); });`;

await test('a real Prometheus sees faults of a real cluster', async (story) => {
  await using bench = await createHarness();
  await bench.must('mini', 'up', '--name', NAME, '--control-planes', '3', '--workers', '1');
  const cluster = new StoryCluster(bench, NAME);
  await cluster.allReady(NODES, 60);
  const workspace = await cluster.workspace();
  const ask = (...token: readonly string[]): Promise<string> =>
    cluster
      .address('n4')
      .then((host) => cluster.run('n1', '/usr/lib/cluster/node', '-e', ASK, '--', host, ...token));
  const tokenOf = (account: string): Promise<string> =>
    cluster.sh('n1', `kubectl -n ${NAMESPACE} create token ${account}`);

  await story.test('no node serves metrics before the exporter is enabled in the configuration', async () => {
    for (const node of NODES) {
      const { stdout } = await cluster.try(node, 'systemctl', 'is-active', 'cluster-exporter');
      assert.match(stdout, /inactive|unknown/);
    }
  });

  await story.test(
    'config apply starts the exporter on each node, and init installs the monitoring chart from the bundle',
    async (step) => {
      await cluster.edit((yaml) => stringify({ ...(parse(yaml) as object), monitoring: { exporter: true } }));
      await bench.must('--workspace', workspace, 'config', 'apply', '--yes');
      const startedMs = Date.now();
      for (const node of NODES)
        await eventually(
          `the exporter of ${node} runs`,
          60,
          () => cluster.try(node, 'systemctl', 'is-active', 'cluster-exporter'),
          ({ stdout }) => stdout.trim() === 'active',
        );
      step.diagnostic(`every exporter runs after ${Date.now() - startedMs} ms`);
      const memory = await cluster.sh('n1', 'systemctl show -P MemoryCurrent cluster-exporter');
      step.diagnostic(`the exporter of n1 takes ${Math.round(Number(memory) / 1024 ** 2)} MiB`);
      await cluster.edit((yaml) => {
        const values = { scrapeInterval: '10s' };
        const charts = [{ name: NAME, chart: 'bundle:monitoring', namespace: NAMESPACE, values }];
        return stringify({ ...(parse(yaml) as object), charts });
      });
      const { charts } = await new ChartHarness(bench, { cluster: NAME, workspace }).init();
      assert.deepEqual(charts, [NAME]);
    },
  );

  await story.test('the exporter serves nobody but holders of a token that may read metrics', async () => {
    assert.equal(await ask(), '401');
    assert.equal(await ask('head.body.signature'), '403');
    assert.equal(await ask(await tokenOf('default')), '403', 'a service account without the right');
    assert.equal(await ask(await tokenOf('monitoring')), '200');
  });

  const prometheus = await PrometheusPod.start(bench, cluster, { node: 'n1', namespace: NAMESPACE });

  await eventually(
    'every node is scraped',
    120,
    () => prometheus.query('up{job="cluster-nodes"} == 1'),
    (samples) => samples.length === NODES.length,
  );

  await story.test('a healthy cluster has no alert', async (step) => {
    await hold(step, prometheus, [], LONG_MINUTES);
  });

  await story.test('each metric expression of the alerts has time series on real nodes', async () => {
    const empty = [];
    for (const { code, alert } of DOCTOR_CHECKS)
      if (!('none' in alert) && (await prometheus.query(alert.figure)).length === 0) empty.push(code);
    assert.deepEqual(empty.toSorted(), WITHOUT_FIGURE);
  });

  await story.test('each metric in the alert rules and in the dashboard exists on a real node', async () => {
    const names = await metricNames();
    assert.ok(names.length > 20, `only ${names.length} metrics`);
    const missing = [];
    for (const name of names) if ((await prometheus.query(name)).length === 0) missing.push(name);
    assert.deepEqual(missing.toSorted(), NOT_ALWAYS);
  });

  await story.test('Prometheus reports an etcd member that does not start', async (step) => {
    const unit = 'cluster-etcd-state.service';
    const dropin = `/run/systemd/system/${unit}.d`;
    const failing = `printf '[Service]\\nExecStartPre=/bin/false\\n' > ${dropin}/failing.conf`;
    await cluster.sh('n3', `mkdir ${dropin}; ${failing}; systemctl daemon-reload; systemctl stop ${unit}`);
    await fires(step, prometheus, ['ClusterEtcdMember critical n3']);
    await hold(step, prometheus, ['ClusterEtcdMember critical n3'], LONG_MINUTES);
    await cluster.sh('n3', `rm -r ${dropin}; systemctl daemon-reload; systemctl restart ${unit}`);
    await fires(step, prometheus, []);
  });

  await story.test('Prometheus reports a node without power', async (step) => {
    await cluster.cutPower('n4');
    await fires(step, prometheus, ['ClusterNodeSilent critical n4']);
    await hold(step, prometheus, ['ClusterNodeSilent critical n4'], SHORT_MINUTES);
    await cluster.start('n4');
    await cluster.allReady(NODES, 180);
    await fires(step, prometheus, []);
  });

  await story.test(
    'Prometheus still scrapes and reports a lost quorum, although no API server can review its token',
    async (step) => {
      const quorum = ['ClusterEtcdQuorum critical', 'ClusterEtcdQuorum critical'];
      for (const node of ['n2', 'n3']) await cluster.cutPower(node);
      await fires(step, prometheus, quorum);
      await hold(step, prometheus, quorum, SHORT_MINUTES);
      const up = await prometheus.query('up{job="cluster-nodes"} == 1');
      assert.deepEqual(up.map(({ metric }) => metric['node']).toSorted(), ['n1', 'n4']);
      for (const node of ['n2', 'n3']) await cluster.start(node);
      await cluster.allReady(NODES, 240);
      await fires(step, prometheus, []);
    },
  );

  await story.test('the exporter stops when it is disabled in the configuration', async () => {
    await cluster.edit((yaml) => stringify({ ...(parse(yaml) as object), monitoring: { exporter: false } }));
    await bench.must('--workspace', workspace, 'config', 'apply', '--yes');
    for (const node of NODES)
      await eventually(
        `the exporter of ${node} has ended`,
        60,
        () => cluster.try(node, 'systemctl', 'is-active', 'cluster-exporter'),
        ({ stdout }) => stdout.trim() === 'inactive',
      );
  });
});

/** The names of all metrics of nodes in the rules and in the dashboard of the chart. */
async function metricNames(): Promise<readonly string[]> {
  const texts = ['rules.yaml', 'dashboard.json'].map((name) => readFile(join(FILES, name), 'utf8'));
  const names = (await Promise.all(texts)).flatMap((text) => text.match(/\b(cluster|etcd)_[a-z_]+\b/g) ?? []);
  return [...new Set(names)];
}

/** "NAME SEVERITY NODE" of each alert that fires, apart from those of the host. */
function firing(alerts: readonly ActiveAlert[]): readonly string[] {
  return alerts
    .filter(({ state, labels }) => state === 'firing' && !OF_THE_HOST.includes(labels['alertname'] ?? ''))
    .map(({ labels: { alertname, severity, node } }) => [alertname, severity, node].join(' ').trim())
    .toSorted();
}

/** Waits until exactly these alerts fire. */
async function fires(step: TestContext, prometheus: PrometheusPod, wanted: readonly string[]): Promise<void> {
  const startedMs = Date.now();
  await eventually(
    `${wanted.join(', ') || 'no alert'} fires`,
    420,
    async () => firing(await prometheus.alerts()),
    (now) => now.join() === wanted.join(),
  );
  step.diagnostic(
    `${wanted.join(', ') || 'no alert'} after ${Math.round((Date.now() - startedMs) / 1000)} s`,
  );
}

/** Fails when other alerts fire within this time. */
async function hold(
  step: TestContext,
  prometheus: PrometheusPod,
  wanted: readonly string[],
  minutes: number,
): Promise<void> {
  for (const endMs = Date.now() + minutes * 60_000; Date.now() < endMs; await delay(POLL_MS)) {
    const alerts = await prometheus.alerts();
    assert.deepEqual(firing(alerts), wanted);
    if (Date.now() + POLL_MS < endMs) continue;
    for (const { state, labels } of alerts)
      step.diagnostic(`${state}: ${labels['alertname']} ${labels['severity']} ${labels['node'] ?? ''}`);
  }
}
