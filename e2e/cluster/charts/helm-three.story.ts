import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { stringify } from 'yaml';
import { createBuildContext } from '../../build-context.ts';
import { createHarness } from '../../machines/harness.ts';
import { eventually } from '../harness/node-shell.ts';
import { ChartHarness, type ChartEntry } from './chart-harness.ts';
import { runHelm } from './chart-sources.ts';
import { buildHelmThree } from './helm-three.ts';

const NAMESPACE = 'shop';
const IMAGE = 'cluster.local/web:0.1.0';
/** An image that no node has, so that its pods never become ready. */
const NO_IMAGE = 'cluster.local/none:1';
/** Lines of "KIND NAME UID" of the objects of a release, without pods and replica sets. */
const OBJECTS = [
  ...['get', 'deployment,service,configmap,cronjob', '--selector', 'app.kubernetes.io/managed-by=Helm'],
  ...[
    '-n',
    NAMESPACE,
    '-o',
    'jsonpath={range .items[*]}{.kind} {.metadata.name} {.metadata.uid}{"\\n"}{end}',
  ],
];
const OPERATIONS = [
  ...['get', 'deployment,service,configmap,cronjob', '--selector', 'app.kubernetes.io/managed-by=Helm'],
  ...['-n', NAMESPACE, '--show-managed-fields'],
  ...[
    '-o',
    'jsonpath={range .items[*]}{range .metadata.managedFields[?(@.manager=="helm")]}{.operation} {end}{end}',
  ],
];

await test('charts that Helm 3 has installed', async (story) => {
  await using bench = await createHarness();
  const { signal } = bench;
  const context = createBuildContext({ signal, say: (text) => story.diagnostic(text) });
  const program = await buildHelmThree(context, bench.directory);
  await bench.must('mini', 'up', '--name', 'charts');
  const { workspace } = (await bench.cluster('charts')).paths;
  await writeChart(join(workspace, 'twice'));
  const harness = new ChartHarness(bench, { cluster: 'charts', workspace });
  const access = ['--kubeconfig', join(workspace, 'kubeconfig')];
  /** Installs the chart as `cluster init` of an earlier release did. */
  const installWithHelmThree = (name: string, values: object, ...more: readonly string[]) =>
    runHelm(
      program,
      [
        ...['upgrade', name, join(workspace, 'twice'), '--install', '--namespace', NAMESPACE],
        ...['--create-namespace', '--reset-values', '--values', '-', '--history-max', '5'],
        ...['--labels', `cluster-inputs=${'0'.repeat(40)},cluster-revision=1`, ...more, ...access],
      ],
      signal,
      JSON.stringify(values),
    );
  const statusOf = async (name: string): Promise<string | undefined> =>
    (await harness.list()).find((each) => each.name === name)?.status;
  const shop = (values: object): ChartEntry => ({
    name: 'shop',
    chart: './twice',
    namespace: NAMESPACE,
    values,
  });
  const replicas = ['get', 'deployment', 'shop', '-n', NAMESPACE, '-o', 'jsonpath={.status.readyReplicas}'];
  let objects = '';

  await story.test('Helm 3 installs a chart whose lists repeat a name', async () => {
    assert.match(await runHelm(program, ['version', '--short'], signal), /^v3\./);
    await installWithHelmThree('shop', { color: 'red' }, '--wait', '--timeout', '50s');
    assert.equal(await harness.kubectl(...replicas), '1');
    objects = await harness.kubectl(...OBJECTS);
    assert.equal(objects.split('\n').length, 4);
  });

  await story.test(
    'an upgrade by Helm 4 that kill -9 interrupts is rolled back to the revision of Helm 3, and repeated',
    async () => {
      await harness.configure([shop({ color: 'green', image: NO_IMAGE })]);
      const cli = bench.startCli('--workspace', workspace, 'init');
      const ended = once(cli, 'close');
      await eventually(
        'helm waits for a pod',
        60,
        () => statusOf('shop'),
        (status) => status === 'pending-upgrade',
      );
      cli.kill('SIGKILL');
      await harness.killHelm();
      await ended;
      await harness.configure([shop({ color: 'blue', replicas: 2 })]);
      assert.deepEqual((await harness.init()).charts, ['shop']);
      assert.deepEqual(await harness.releases(), ['flannel 1', 'shop 4']);
      assert.equal(await harness.kubectl(...replicas), '2');
      assert.equal(await harness.kubectl(...OBJECTS), objects, 'the same objects, none deleted');
      assert.match(await harness.kubectl(...OPERATIONS), /^(Update ?)+$/, 'applied on the client');
    },
  );

  await story.test('an object that the chart has no more is deleted, and all others stay', async () => {
    await harness.configure([shop({ color: 'blue', replicas: 2, cron: false })]);
    await harness.init();
    const kept = objects.split('\n').filter((line) => !line.startsWith('CronJob '));
    assert.deepEqual((await harness.kubectl(...OBJECTS)).split('\n'), kept);
  });

  await story.test('an install by Helm 3 that kill -9 interrupts is completed by Helm 4', async () => {
    const installing = installWithHelmThree('late', { image: NO_IMAGE, cron: false }, '--wait');
    const failed = assert.rejects(installing);
    await eventually(
      'Helm 3 waits for a pod',
      60,
      () => statusOf('late'),
      (status) => status === 'pending-install',
    );
    await harness.killHelm();
    await failed;
    await harness.configure([{ ...shop({ cron: false }), name: 'late' }]);
    assert.deepEqual((await harness.init()).charts, ['late']);
    assert.equal(await statusOf('late'), 'deployed');
  });
});

/** Writes a chart whose pods have a variable that occurs twice and two entries for one port. */
async function writeChart(directory: string): Promise<void> {
  const labels = { 'app.kubernetes.io/instance': '{{ .Release.Name }}' };
  const metadata = { name: '{{ .Release.Name }}' };
  const container = {
    ...{ name: 'web', image: '{{ .Values.image }}', imagePullPolicy: 'IfNotPresent' },
    env: [
      { name: 'COLOR', value: 'none' },
      { name: 'COLOR', value: '{{ .Values.color }}' },
      { name: 'NODE_NAME', valueFrom: { fieldRef: { fieldPath: 'spec.nodeName' } } },
    ],
    ports: [
      { name: 'web', containerPort: 8080 },
      { name: 'again', containerPort: 8080 },
    ],
    readinessProbe: { httpGet: { path: '/healthz', port: 8080 }, periodSeconds: 1 },
    securityContext: {
      ...{ allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, runAsNonRoot: true },
      ...{ capabilities: { drop: ['ALL'] }, seccompProfile: { type: 'RuntimeDefault' } },
    },
  };
  const tolerations = [
    { key: 'node-role.kubernetes.io/control-plane', operator: 'Exists', effect: 'NoSchedule' },
  ];
  const template = { metadata: { labels }, spec: { tolerations, containers: [container] } };
  const once = { ...template, spec: { ...template.spec, restartPolicy: 'Never' } };
  const objects = [
    {
      ...{ apiVersion: 'apps/v1', kind: 'Deployment', metadata },
      spec: { replicas: 'REPLICAS', selector: { matchLabels: labels }, template },
    },
    {
      ...{ apiVersion: 'v1', kind: 'Service', metadata },
      spec: { selector: labels, ports: [{ name: 'web', port: 80, targetPort: 'web' }] },
    },
    { apiVersion: 'v1', kind: 'ConfigMap', metadata, data: { color: '{{ .Values.color }}' } },
  ];
  const cron = {
    ...{ apiVersion: 'batch/v1', kind: 'CronJob', metadata },
    spec: { schedule: '0 0 1 1 *', jobTemplate: { spec: { template: once } } },
  };
  const text = objects.map((each) => stringify(each)).join('---\n');
  const files = {
    'Chart.yaml': stringify({ apiVersion: 'v2', name: 'twice', version: '1.0.0' }),
    'values.yaml': stringify({ color: 'white', replicas: 1, image: IMAGE, cron: true }),
    'templates/objects.yaml': text.replace('REPLICAS', '{{ .Values.replicas }}'),
    'templates/cron.yaml': `{{ if .Values.cron }}\n${stringify(cron)}{{ end }}\n`,
  };
  await mkdir(join(directory, 'templates'), { recursive: true });
  for (const [path, content] of Object.entries(files)) await writeFile(join(directory, path), content);
}
