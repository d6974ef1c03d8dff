import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ExecaRunner } from '../../internal/exec/index.ts';
import { createCaCertPem, generateKeyPem } from '../../internal/pki/index.ts';
import {
  FileServer,
  findFreePort,
  programOfBundle,
  TestApiServer,
  TestEtcd,
  untilServing,
} from '../../internal/testing/index.ts';
import { Helm, helmFailure } from './helm.ts';
import type { PlannedChart } from './plan-charts.ts';

const HOST = '127.0.0.1';
const NAMESPACE = 'shop';
const REVISION = 'cluster-revision';
const { signal } = new AbortController();

let directory: string;
let etcd: TestEtcd;
let api: TestApiServer;
let helm: Helm;
let token: string;

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'cluster-helm-'));
  etcd = await TestEtcd.create();
  const member = await etcd.startMember('one');
  await untilServing(await etcd.connect('root', member.endpoint));
  api = await TestApiServer.create(directory, etcd, member.endpoint);
  const admin = await api.startForAdmin();
  token = admin.token;
  const path = process.env['PATH'] ?? '';
  helm = new Helm({
    binary: await programOfBundle('helm', directory),
    commands: new ExecaRunner({ path }),
    kubeconfig: admin.kubeconfig,
    env: { HOME: directory, PATH: path },
  });
}, 150_000);

afterAll(async () => {
  await api[Symbol.asyncDispose]();
  await etcd[Symbol.asyncDispose]();
  await rm(directory, { recursive: true });
}, 30_000);

/** Writes a chart with these files below its directory. Returns the directory. */
async function writeChart(name: string, files: Readonly<Record<string, string>>): Promise<string> {
  const chart = join(directory, `chart-${name}`);
  await rm(chart, { recursive: true, force: true });
  const all = { 'Chart.yaml': `{apiVersion: v2, name: ${name}, version: 1.0.0}`, ...files };
  for (const [path, text] of Object.entries(all)) {
    await mkdir(join(chart, path, '..'), { recursive: true });
    await writeFile(join(chart, path), text);
  }
  return chart;
}

const planned = (name: string, more: Partial<PlannedChart> = {}): PlannedChart => ({
  ...{ name, namespace: NAMESPACE, source: { kind: 'path', path: '' }, values: {}, needs: [] },
  ...{ wait: true, timeoutSeconds: 30, ...more },
});

const install = (chart: PlannedChart, ...located: readonly string[]): Promise<void> =>
  helm.install(chart, located, { [REVISION]: '1' }, signal);

/** How the CLI reports the failure of a helm command. */
const failureOf = (running: Promise<void>): Promise<unknown> =>
  running.then(
    () => undefined,
    (error: unknown) => helmFailure('installing chart x', error),
  );

interface KubernetesObject {
  readonly metadata: {
    readonly uid: string;
    readonly labels?: Readonly<Record<string, string>>;
    readonly managedFields?: readonly { readonly manager: string; readonly operation: string }[];
  };
  readonly data?: Readonly<Record<string, string>>;
  readonly spec?: unknown;
}

/** undefined if the API server does not have it. */
async function read(path: string): Promise<KubernetesObject | undefined> {
  const { status, text } = await api.ask(path, { headers: { authorization: `Bearer ${token}` } });
  if (status === 404) return undefined;
  expect(status).toBe(200);
  return JSON.parse(text) as KubernetesObject;
}

const configMap = (name: string): Promise<KubernetesObject | undefined> =>
  read(`/api/v1/namespaces/${NAMESPACE}/configmaps/${name}`);
const cronJob = (name: string): Promise<KubernetesObject | undefined> =>
  read(`/apis/batch/v1/namespaces/${NAMESPACE}/cronjobs/${name}`);
const release = (name: string, revision: number): Promise<KubernetesObject | undefined> =>
  read(`/api/v1/namespaces/${NAMESPACE}/secrets/sh.helm.release.v1.${name}.v${revision}`);

const SETTINGS = `{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}, data: {color: {{ .Values.color }}}}`;
const OLD = `{apiVersion: v1, kind: ConfigMap, metadata: {name: old}}`;
/** A pod with a variable that occurs twice, and with two entries for one port. */
const REPEATED = `
apiVersion: batch/v1
kind: CronJob
metadata: {name: repeated}
spec:
  schedule: '0 0 1 1 *'
  jobTemplate:
    spec:
      template:
        spec:
          restartPolicy: Never
          containers:
            - name: main
              image: none.example.org/none:1
              env: [{name: COLOR, value: red}, {name: COLOR, value: {{ .Values.color }}}]
              ports: [{name: a, containerPort: 80}, {name: b, containerPort: 80}]
`;
const VALUES = 'color: blue\n';

describe('the helm of the bundle', () => {
  test('installs a chart whose lists repeat a name, as client-side apply', async () => {
    const chart = await writeChart('repeated', { 'values.yaml': VALUES, 'templates/job.yaml': REPEATED });
    await install(planned('repeated'), chart);
    const env = [
      { name: 'COLOR', value: 'red' },
      { name: 'COLOR', value: 'blue' },
    ];
    const found = await cronJob('repeated');
    const containers = [expect.objectContaining({ env })];
    expect(found?.spec).toMatchObject({ jobTemplate: { spec: { template: { spec: { containers } } } } });
    const managers = found?.metadata.managedFields?.map(({ manager, operation }) => [manager, operation]);
    expect(managers).toEqual([['helm', 'Update']]);
  });

  test('upgrades, rolls back and uninstalls a release, and replaces no object', async () => {
    const files = { 'values.yaml': VALUES, 'templates/settings.yaml': SETTINGS };
    const chart = await writeChart('shop', { ...files, 'templates/old.yaml': OLD });
    await install(planned('shop', { values: { color: 'green' } }), chart);
    const first = await configMap('settings');
    expect(first?.data).toEqual({ color: 'green' });
    expect((await release('shop', 1))?.metadata.labels).toMatchObject({
      ...{ owner: 'helm', status: 'deployed', version: '1', [REVISION]: '1' },
    });

    await install(planned('shop'), await writeChart('shop', files));
    const second = await configMap('settings');
    expect(second?.data).toEqual({ color: 'blue' });
    expect(second?.metadata.uid).toBe(first?.metadata.uid);
    expect(await configMap('old')).toBeUndefined();

    await helm.rollback({ name: 'shop', namespace: NAMESPACE }, signal);
    const third = await configMap('settings');
    expect(third?.data).toEqual({ color: 'green' });
    expect(third?.metadata.uid).toBe(first?.metadata.uid);
    expect(await configMap('old')).toBeDefined();
    expect((await release('shop', 3))?.metadata.labels).toMatchObject({ status: 'deployed' });

    await helm.uninstall({ name: 'shop', namespace: NAMESPACE }, signal);
    expect([await configMap('settings'), await release('shop', 3)]).toEqual([undefined, undefined]);
    await helm.uninstall({ name: 'shop', namespace: NAMESPACE }, signal);
  });

  test('does not wait for a custom resource that is not ready', async () => {
    const names = { kind: 'Widget', plural: 'widgets', singular: 'widget' };
    const open = { type: 'object', 'x-kubernetes-preserve-unknown-fields': true };
    const version = { name: 'v1', served: true, storage: true, schema: { openAPIV3Schema: open } };
    const definition = {
      ...{ apiVersion: 'apiextensions.k8s.io/v1', kind: 'CustomResourceDefinition' },
      metadata: { name: 'widgets.example.org' },
      spec: { group: 'example.org', scope: 'Namespaced', names, versions: [version] },
    };
    const widget = {
      ...{ apiVersion: 'example.org/v1', kind: 'Widget', metadata: { name: 'one' } },
      status: { conditions: [{ type: 'Ready', status: 'False', reason: 'Waiting', message: 'x' }] },
    };
    const chart = await writeChart('widget', {
      'crds/widgets.json': JSON.stringify(definition),
      'templates/widget.json': JSON.stringify(widget),
    });
    await install(planned('widget'), chart);
    expect(await read(`/apis/example.org/v1/namespaces/${NAMESPACE}/widgets/one`)).toBeDefined();
  });

  test('waits for a deployment until the timeout of the chart, and not at all without wait', async () => {
    const metadata = { labels: { app: 'x' } };
    const deployment = {
      ...{ apiVersion: 'apps/v1', kind: 'Deployment', metadata: { name: 'x' } },
      spec: {
        selector: { matchLabels: metadata.labels },
        template: { metadata, spec: { containers: [{ name: 'main', image: 'none.example.org/none:1' }] } },
      },
    };
    const chart = await writeChart('late', { 'templates/x.json': JSON.stringify(deployment) });
    const failure = await failureOf(install(planned('late', { timeoutSeconds: 3 }), chart));
    expect(failure).toMatchObject({ code: 'charts-timeout' });
    await install(planned('late', { wait: false }), chart);
  });
});

describe('helmFailure() with the helm of the bundle', () => {
  const template = (text: string) => ({ 'templates/x.yaml': text });
  const job = REPEATED.replace('{{ .Values.color }}', 'blue').replace('name: repeated', 'name: other');
  test.each([
    { name: 'a value that is missing', files: template('a: {{ .Values.a.b }}'), says: /nil pointer/ },
    {
      name: 'a required value',
      files: template('a: {{ required "a is required" .Values.a }}'),
      says: /a is re/,
    },
    { name: 'an unknown template', files: template('a: {{ include "y" . }}'), says: /no template "y"/ },
    { name: 'a template that cannot be parsed', files: template('{{ if }}'), says: /parse error/ },
    { name: 'a template that is no YAML', files: template('a: {'), says: /YAML parse error/ },
    {
      name: 'an object of an unknown kind',
      files: template('{apiVersion: v1, kind: Nothing}'),
      says: /no matches/,
    },
    {
      ...{ name: 'values that the schema refuses', says: /meet the specifications/ },
      files: { ...template(''), 'values.schema.json': '{"required":["a"]}' },
    },
    {
      ...{ name: 'a chart of an unknown version', says: /chart version/ },
      files: { ...template(''), 'Chart.yaml': '{apiVersion: v9, name: x, version: 1.0.0}' },
    },
  ])('reports $name as charts-invalid', async ({ files, says }) => {
    const failure = await failureOf(install(planned('invalid'), await writeChart('invalid', files)));
    expect(failure).toMatchObject({
      ...{ code: 'charts-invalid', cause: { message: expect.stringMatching(says) as unknown } },
    });
  });

  test('reports a missing value in an upgrade as charts-invalid', async () => {
    await install(
      planned('upgraded'),
      await writeChart('upgraded', template(OLD.replace('old', 'upgraded'))),
    );
    const chart = await writeChart('upgraded', template('a: {{ .Values.a.b }}'));
    expect(await failureOf(install(planned('upgraded'), chart))).toMatchObject({ code: 'charts-invalid' });
  });

  test('reports an object that the API server refuses as charts-failed', async () => {
    const chart = await writeChart('refused', template(job.replace('0 0 1 1 *', 'never')));
    expect(await failureOf(install(planned('refused'), chart))).toMatchObject({
      ...{ code: 'charts-failed', cause: { message: expect.stringMatching(/spec\.schedule/) as unknown } },
    });
  });

  test('reports a repository or registry that does not have the chart, or no TLS, as charts-source-unreachable', async () => {
    await using server = await FileServer.start();
    const closed = `http://${HOST}:${await findFreePort()}`;
    const entry = { apiVersion: 'v2', name: 'here', version: '1.0.0', urls: ['here-1.0.0.tgz'] };
    const index = { apiVersion: 'v1', entries: { here: [entry] } };
    server.files.set('/index.yaml', Buffer.from(JSON.stringify(index)));
    const caFile = join(directory, 'ca.crt');
    const nowMs = Date.now();
    await writeFile(caFile, await createCaCertPem({ commonName: 'ca', keyPem: generateKeyPem(), nowMs }));
    const registry = (url: string) => `${url.replace('http://', 'oci://')}/charts/here`;
    const sources = [
      ['here', '--repo', closed, '--version', '1.0.0'],
      ['here', '--repo', `${server.url}/none`, '--version', '1.0.0'],
      ['here', '--repo', server.url, '--version', '2.0.0'],
      ['other', '--repo', server.url, '--version', '1.0.0'],
      ['here', '--repo', server.url, '--version', '1.0.0'],
      [registry(closed), '--version', '1.0.0', '--plain-http'],
      [registry(server.url), '--version', '1.0.0', '--plain-http'],
      [registry(server.url), '--version', '1.0.0', '--ca-file', caFile],
    ];
    for (const located of sources)
      expect({ located, failure: await failureOf(install(planned('remote'), ...located)) }).toMatchObject({
        ...{ located, failure: { code: 'charts-source-unreachable' } },
      });
  });
});
