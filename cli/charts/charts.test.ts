import { afterEach, describe, expect, test } from '@jest/globals';
import { once } from 'node:events';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { SystemClock } from '../../internal/clock/index.ts';
import { BlobStore, type BundleManifest } from '../../internal/bundle/index.ts';
import { parseClusterConfig } from '../../internal/config/index.ts';
import type { Command, CommandRunner } from '../../internal/exec/index.ts';
import { ExecError } from '../../internal/exec/index.ts';
import { DiskStreams } from '../../internal/file/index.ts';
import type { KubeAccess } from '../../internal/kube/index.ts';
import {
  createCaCertPem,
  generateKeyPem,
  KeyCertificateSigner,
  pubKeyDerOf,
} from '../../internal/pki/index.ts';
import { MemoryFiles } from '../../internal/testing/index.ts';
import type { CommandContext } from '../app/command.ts';
import { RecordingHost } from '../host/fake-host.ts';
import { layoutOf, StateFile } from '../workspace/index.ts';
import { helmFailure } from './helm.ts';
import { installCharts, planCharts } from './index.ts';
import type { PlannedChart } from './plan-charts.ts';
import { noPassphrases } from '../workspace/fake-passphrases.ts';

const never = new AbortController().signal;

function configOf(charts: string, more = ''): ReturnType<typeof parseClusterConfig> {
  return parseClusterConfig(
    `version: 1\nname: prod\nattestation: {variants: [machine-key], firstContact: fingerprint}\n${more}charts:\n${charts}`,
    'cluster.yaml',
  );
}

const THREE =
  '  - {name: web, chart: ./web, needs: [db]}\n  - {name: db, chart: ./db}\n  - {name: other, chart: ./other}\n';
const names = (plan: readonly PlannedChart[]): readonly string[] => plan.map(({ name }) => name);

describe('planCharts()', () => {
  test('orders charts by their dependencies, the pod network first', () => {
    expect(names(planCharts(configOf(THREE), { kind: 'all' }))).toEqual(['flannel', 'db', 'web', 'other']);
  });

  test('selects only a chart and its dependencies with --only', () => {
    expect(names(planCharts(configOf(THREE), { kind: 'only', name: 'web' }))).toEqual([
      'flannel',
      'db',
      'web',
    ]);
    expect(names(planCharts(configOf(THREE), { kind: 'only', name: 'flannel' }))).toEqual(['flannel']);
  });

  test.each([
    { endpoint: undefined, host: '127.0.0.1', port: 6445 },
    { endpoint: 'api.example.org:443', host: 'api.example.org', port: 443 },
    { endpoint: '[2001:db8::1]:6443', host: '2001:db8::1', port: 6443 },
  ])(
    'the pod network gets the address at which nodes reach the API server: $host',
    ({ endpoint, host, port }) => {
      const more = endpoint === undefined ? '' : `apiServer: {endpoint: '${endpoint}'}\n`;
      const [network] = planCharts(configOf(THREE, more), { kind: 'all' });
      expect(network?.values['apiServer']).toEqual({ host, port });
    },
  );

  test.each([
    { pods: '10.244.0.0/16', services: '10.96.0.0/12', want: { podCIDR: '10.244.0.0/16' } },
    {
      pods: '10.244.0.0/16,fd00:1::/56',
      services: '10.96.0.0/12,fd00:2::/108',
      want: { podCIDR: '10.244.0.0/16', podCIDRv6: 'fd00:1::/56' },
    },
  ])('the pod network gets the range of each family of $pods', ({ pods, services, want }) => {
    const more = `networking: { podSubnet: "${pods}", serviceSubnet: "${services}" }\n`;
    const [network] = planCharts(configOf(THREE, more), { kind: 'all' });
    expect(network?.values).toEqual({ ...want, apiServer: { host: '127.0.0.1', port: 6445 } });
  });

  test('the pod network gets the backend that cluster.yaml names', () => {
    const [network] = planCharts(configOf(THREE, 'networking: { backend: wireguard }\n'), { kind: 'all' });
    expect(network?.values['backend']).toEqual({ type: 'wireguard' });
  });

  test('selects nothing with --skip-charts', () => {
    expect(planCharts(configOf(THREE), { kind: 'none' })).toEqual([]);
  });

  test('leaves the pod network out of a cluster with another network plugin', () => {
    const plan = planCharts(configOf(THREE, 'networking: { plugin: none }\n'), { kind: 'all' });
    expect(names(plan)).toEqual(['db', 'web', 'other']);
  });

  test('refuses and shows a dependency cycle, even when no chart is selected', () => {
    const circle =
      '  - {name: a, chart: ./a, needs: [b]}\n  - {name: b, chart: ./b, needs: [c]}\n  - {name: c, chart: ./c, needs: [b]}\n';
    for (const selection of [{ kind: 'all' }, { kind: 'none' }] as const) {
      expect(() => planCharts(configOf(circle), selection)).toThrow(
        expect.objectContaining({ code: 'charts-cycle', exit: 'usage', details: { circle: 'b → c → b' } }),
      );
    }
  });

  test('refuses an unknown chart', () => {
    expect(() => planCharts(configOf(THREE), { kind: 'only', name: 'x' })).toThrow(
      expect.objectContaining({ code: 'charts-unknown' }),
    );
  });

  test('recognizes the kind of source by its syntax', () => {
    const charts =
      '  - {name: a, chart: "oci://h/a", version: 1.0.0}\n  - {name: b, chart: b, repository: "https://h", version: 2.0.0}\n  - {name: c, chart: "bundle:hello"}\n  - {name: d, chart: ./d.tgz}\n';
    expect(
      planCharts(configOf(charts), { kind: 'all' })
        .slice(1)
        .map(({ source }) => source),
    ).toEqual([
      { kind: 'oci', reference: 'oci://h/a', version: '1.0.0', plainHttp: false },
      { kind: 'repository', url: 'https://h', chart: 'b', version: '2.0.0' },
      { kind: 'bundle', component: 'hello' },
      { kind: 'path', path: './d.tgz' },
    ]);
  });
});

describe('helmFailure()', () => {
  // Final messages of helm 3.19 and 4.3, copied from real runs.
  const cases = [
    { words: 'Error: context deadline exceeded', want: 'charts-timeout' },
    { words: 'Error: UPGRADE FAILED: timed out waiting for the condition', want: 'charts-timeout' },
    { words: 'Error: failed to download "oci://h/a" at version "1.0.0"', want: 'charts-source-unreachable' },
    {
      words:
        'Error: looks like "https://h" is not a valid chart repository or cannot be reached: Get "https://h/index.yaml": dial tcp: lookup h: no such host',
      want: 'charts-source-unreachable',
    },
    {
      words:
        'Error: failed to perform "FetchReference" on source: 192.0.2.1:5000/charts/hello:9.9.9: not found',
      want: 'charts-source-unreachable',
    },
    {
      words:
        'Error: failed to do request: Head "https://h/v2/a/manifests/1.0.0": http: server gave HTTP response to HTTPS client',
      want: 'charts-source-unreachable',
    },
    {
      words:
        "Error: values don't meet the specifications of the schema(s) in the following chart(s):\nhello:\n- replicas: Invalid type",
      want: 'charts-invalid',
    },
    {
      words: 'Error: template: hello/templates/x.yaml:1:2: executing "x" at <.a.b>: nil pointer',
      want: 'charts-invalid',
    },
    { words: 'Error: Chart.yaml file is missing', want: 'charts-invalid' },
    {
      words:
        'Error: UPGRADE FAILED: hello/templates/x.yaml:1:5\n  executing "hello/templates/x.yaml" at <.Values.a.b>:\n    nil pointer evaluating interface {}.b',
      want: 'charts-invalid',
    },
    { words: 'Error: UPGRADE FAILED: invalid chart apiVersion', want: 'charts-invalid' },
    { words: 'level=WARN msg=x\nError: admission webhook denied the request', want: 'charts-failed' },
  ];
  test.each(cases)('helmFailure() classifies $words as $want', ({ words, want }) => {
    const error = new ExecError('exec-failed', { argv: ['helm'], exitCode: 1, outputTail: words });
    expect(helmFailure('installing chart a', error)).toMatchObject({
      code: want,
      message: 'installing chart a',
    });
  });

  test('reports a missing helm as charts-helm-missing, and leaves other errors unchanged', () => {
    const missing = new ExecError('exec-not-found', { argv: ['helm'], outputTail: '' });
    expect(helmFailure('x', missing)).toMatchObject({ code: 'charts-helm-missing', exit: 'preflight' });
    const defect = new TypeError('x');
    expect(helmFailure('x', defect)).toBe(defect);
  });
});

/** The argument that follows a flag. */
function after({ argv }: Command, flag: string): string | undefined {
  const at = argv.indexOf(flag);
  return at < 0 ? undefined : argv[at + 1];
}

/** A release of the fake helm. */
interface FakeRelease {
  readonly revision: number;
  readonly status: string;
  readonly values: string;
  /** "name=value,name=value". Helm copies them to the next revision. */
  readonly labels?: string;
}

/** A fake helm that records releases. A test can make it fail or leave a release pending. */
class FakeHelm implements CommandRunner {
  version = 'v4.3.2';
  /** Per call, its flags for how helm applies objects and waits. */
  readonly flags: string[] = [];
  readonly releases = new Map<string, FakeRelease>();
  readonly calls: string[] = [];
  /** The arguments of each installation that select the chart. */
  readonly charts: string[] = [];
  fail: { readonly name: string; readonly words: string } | undefined;
  /** How many more times the fake reports that another helm process is running. */
  elsewhere = 0;

  async run(command: Command): Promise<{ exitCode: number; stdout: string; stderr: string }> {
    command.signal.throwIfAborted();
    if (command.argv[0] === 'pgrep')
      return { exitCode: this.elsewhere-- > 0 ? 0 : 1, stdout: '', stderr: '' };
    const [, verb = '', name = ''] = command.argv;
    const answer = (stdout: string) => ({ exitCode: 0, stdout, stderr: '' });
    if (verb === 'version') return answer(this.version);
    this.calls.push(`${verb} ${name}`);
    this.flags.push([verb, ...command.argv.filter((each) => /^--(wait|server-side)/.test(each))].join(' '));
    const key = `${after(command, '--namespace')}/${name}`;
    if (verb === 'uninstall') this.releases.delete(key);
    if (verb === 'rollback') this.#add(key, { status: 'deployed', values: '' });
    if (verb !== 'upgrade') return answer('');
    this.charts.push(command.argv.slice(3, command.argv.indexOf('--install')).join(' '));
    if (this.releases.get(key)?.status.startsWith('pending') === true) {
      throw this.#error(
        command,
        'Error: UPGRADE FAILED: another operation (install/upgrade/rollback) is in progress',
      );
    }
    if (this.fail?.name === name) {
      this.#add(key, { status: 'failed', values: '' });
      throw this.#error(command, this.fail.words);
    }
    const values = String(command.input);
    const kept =
      command.argv.includes('--reset-values') || values !== '{}' ? undefined : this.releases.get(key);
    const labels = after(command, '--labels');
    this.#add(key, {
      ...{ status: 'deployed', values: kept?.values ?? values },
      ...(labels !== undefined && { labels }),
    });
    return answer('{}');
  }

  /** What another program does with helm: it knows nothing of the labels, which helm copies. */
  changeElsewhere(key: string): void {
    this.#add(key, { status: 'deployed', values: '{"other":1}' });
  }

  /** The Secrets in which helm stores the releases. */
  secrets(): readonly unknown[] {
    return [...this.releases].map(([key, { revision, status, labels = '' }]) => {
      const [namespace = '', name = ''] = key.split('/');
      const own = labels.split(',').map((label): readonly [string, string] => {
        const [key = '', value = ''] = label.split('=');
        return [key, value];
      });
      return {
        metadata: {
          namespace,
          labels: { ...Object.fromEntries(own), name, status, version: String(revision) },
        },
      };
    });
  }

  #add(key: string, release: Omit<FakeRelease, 'revision'>): void {
    const last = this.releases.get(key);
    this.releases.set(key, { ...last, ...release, revision: (last?.revision ?? 0) + 1 });
  }

  #error(command: Command, outputTail: string): ExecError {
    return new ExecError('exec-failed', { argv: command.argv, exitCode: 1, outputTail });
  }
}

const closing: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

/** An API server with pods and events of one failing release. */
async function startApi(
  lists: Readonly<Record<string, readonly unknown[]>>,
  secrets: () => readonly unknown[],
): Promise<KubeAccess> {
  const caKey = generateKeyPem();
  const caPem = await createCaCertPem({ commonName: 'k', keyPem: caKey, nowMs: Date.now() });
  const signer = new KeyCertificateSigner({ caPem, keyPem: caKey, nowMs: () => Date.now() });
  const key = generateKeyPem();
  const cert = await signer.issue({
    commonName: 'api',
    pubKeyDer: pubKeyDerOf(key),
    usages: ['server', 'client'],
    names: [{ type: 'ip', value: '127.0.0.1' }],
    validDays: 1,
  });
  const server = createServer({ key: key.reveal(), cert }, (request, response) => {
    const kind = new URL(request.url ?? '', 'https://api').pathname.split('/').at(-1) ?? '';
    response.end(JSON.stringify({ items: kind === 'secrets' ? secrets() : (lists[kind] ?? []) }));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  closing.push(
    () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  );
  return {
    server: `https://127.0.0.1:${(server.address() as AddressInfo).port}`,
    caPem,
    certPem: cert,
    keyPem: key,
  };
}

async function start(charts: string, lists: Readonly<Record<string, unknown[]>> = {}) {
  const files = new MemoryFiles();
  for (const name of ['net', 'web', 'db']) {
    await files.makeDirectory(`/desk/${name}/templates`);
    await files.writeAtomic(`/desk/${name}/Chart.yaml`, `name: ${name}`);
    await files.writeAtomic(`/desk/${name}/templates/x.yaml`, 'x');
  }
  const helm = new FakeHelm();
  const host = new RecordingHost();
  const layout = layoutOf('/desk');
  const state = await StateFile.read(files, layout, { programVersion: '0.1.0' });
  const access = await startApi(lists, () => helm.secrets());
  const manifest: BundleManifest = {
    version: 1,
    name: 'kubernetes-v1.35.4-linux-amd64',
    kubernetesVersion: 'v1.35.4',
    architecture: 'amd64',
    components: [],
  };
  const store = new BlobStore({ files, streams: new DiskStreams(), roots: ['/cache'] });
  const context: CommandContext = {
    host,
    ports: { files, commands: helm, clock: new SystemClock() },
    paths: { cache: '/cache', data: '/data', config: '/config', workspace: '/desk' },
    passphrases: noPassphrases,
    env: {},
    signal: never,
  };
  const installAll = (plan: readonly PlannedChart[]) =>
    installCharts(context, { plan, layout, state, access, bundle: { store, manifest }, proxy: {} });
  const install = (yaml = charts) => {
    // The network chart comes from the bundle, whose blobs are on the real disk; these tests use only other
    // charts.
    const plan = planCharts(configOf(yaml), { kind: 'all' }).filter(({ name }) => name !== 'flannel');
    return installAll(plan);
  };
  return { files, helm, host, state, install, installAll };
}

const TWO =
  '  - {name: web, chart: ./web, namespace: shop, needs: [db], values: {a: 1}}\n  - {name: db, chart: ./db}\n';

describe('installCharts()', () => {
  test('installs charts in order, passes values through standard input, and keeps installed charts', async () => {
    const { helm, install } = await start(TWO);
    expect(await install()).toMatchObject({ installed: ['db', 'web'], kept: [] });
    expect(helm.releases.get('shop/web')).toMatchObject({ status: 'deployed', values: '{"a":1}' });
    helm.calls.length = 0;
    expect(await install()).toMatchObject({ installed: [], kept: ['db', 'web'] });
    expect(helm.calls).toEqual([]);
  });

  test('requests remote charts by exact version, and without TLS only with plainHttp', async () => {
    const remote =
      '  - {name: a, chart: "oci://h/a", version: 1.0.0}\n  - {name: b, chart: "oci://h/b", version: 1.0.0, plainHttp: true}\n  - {name: c, chart: c, repository: "http://h", version: 2.0.0}\n';
    const { files, helm, install } = await start(remote);
    await expect(install()).rejects.toMatchObject({ code: 'charts-no-ca-bundle', exit: 'preflight' });
    await files.makeDirectory('/etc/ssl/certs');
    await files.writeAtomic('/etc/ssl/certs/ca-certificates.crt', '');
    await install();
    expect(helm.charts).toEqual([
      // Without a CA file, helm 3 continues in plain HTTP if the server responds in plain HTTP.
      'oci://h/a --version 1.0.0 --ca-file /etc/ssl/certs/ca-certificates.crt',
      'oci://h/b --version 1.0.0 --plain-http',
      'c --repo http://h --version 2.0.0',
    ]);
    // A different URL for the same bytes is the same chart; another version is a different chart.
    expect(await install(remote.replace(', plainHttp: true', ''))).toMatchObject({ installed: [] });
    expect(await install(remote.replace('2.0.0', '2.0.1'))).toMatchObject({ installed: ['c'] });
  });

  test.each([
    {
      version: 'v4.3.2',
      want: ['rollback --server-side=false --wait=legacy', 'upgrade --server-side=false --wait=legacy'],
      uninstalled: 'uninstall --wait=legacy',
    },
    { version: 'v3.22.0', want: ['rollback --wait', 'upgrade --wait'], uninstalled: 'uninstall --wait' },
  ])(
    'helm $version applies objects and waits in the way of Helm 3',
    async ({ version, want, uninstalled }) => {
      const { helm, install } = await start('  - {name: db, chart: ./db}\n');
      helm.version = version;
      helm.releases.set('default/db', { revision: 2, status: 'pending-upgrade', values: '' });
      await install();
      helm.releases.set('default/db', { revision: 1, status: 'pending-install', values: '' });
      await install();
      expect(helm.flags).toEqual([...want, uninstalled, want[1]]);
    },
  );

  const runsWith = (backend: string) => ({
    configmaps: [{ data: { 'net-conf.json': JSON.stringify({ Backend: { Type: backend } }) } }],
  });
  test.each([
    { runs: 'vxlan', networking: 'networking: { backend: wireguard }\n' },
    { runs: 'wireguard', networking: '' },
  ])('refuses another backend than $runs before it runs helm', async ({ runs, networking }) => {
    const { helm, installAll } = await start('', runsWith(runs));
    const plan = planCharts(configOf(THREE, networking), { kind: 'all' });
    await expect(installAll(plan)).rejects.toMatchObject({
      code: 'charts-backend-fixed',
      details: { found: runs },
    });
    expect(helm.calls).toEqual([]);
  });

  test('does not judge a chart of the operator that has the name of the pod network', async () => {
    const { installAll } = await start('', runsWith('vxlan'));
    const [network] = planCharts(configOf(THREE, 'networking: { backend: wireguard }\n'), { kind: 'all' });
    if (network === undefined) throw new Error('the plan has no pod network');
    const own = {
      ...network,
      source: { kind: 'path', path: './flannel' },
      values: { backend: 'x' },
    } as const;
    await expect(installAll([own])).rejects.not.toMatchObject({ code: 'charts-backend-fixed' });
    await expect(installAll([own])).rejects.not.toMatchObject({ name: 'ZodError' });
  });

  test('refuses no cluster that has the backend, or has no pod network yet', async () => {
    const plan = planCharts(configOf(THREE, 'networking: { backend: wireguard }\n'), { kind: 'all' });
    for (const lists of [
      runsWith('wireguard'),
      { configmaps: [] },
      { configmaps: [{ data: { 'net-conf.json': '{' } }] },
    ]) {
      const { installAll } = await start('', lists);
      await expect(installAll(plan)).rejects.not.toMatchObject({ code: 'charts-backend-fixed' });
    }
  });

  test('resumes at the failed chart', async () => {
    const { helm, install } = await start(TWO);
    helm.fail = { name: 'web', words: 'Error: something' };
    await expect(install()).rejects.toMatchObject({
      code: 'charts-failed',
      exit: 'partial',
      retryable: true,
    });
    helm.fail = undefined;
    helm.calls.length = 0;
    await install();
    expect(helm.calls).toEqual(['upgrade web']);
  });

  const changes = [
    { name: 'values', change: async () => TWO.replace('a: 1', 'a: 2') },
    {
      name: 'the chart’s files',
      change: async (files: MemoryFiles) => (await files.writeAtomic('/desk/web/templates/x.yaml', 'y'), TWO),
    },
    {
      name: 'the name of a file of the chart',
      change: async (files: MemoryFiles) => (
        await files.rename('/desk/web/templates/x.yaml', '/desk/web/templates/z.yaml'),
        TWO
      ),
    },
  ];
  test.each(changes)('installs a chart again when $name changed', async ({ change }) => {
    const { files, install } = await start(TWO);
    await install();
    expect(await install(await change(files))).toMatchObject({ installed: ['web'], kept: ['db'] });
  });

  test('installs a chart again when its release is missing', async () => {
    const { helm, install } = await start(TWO);
    await install();
    helm.releases.delete('default/db');
    expect(await install()).toMatchObject({ installed: ['db'] });
  });

  test('keeps a chart that helm installed although the command was killed before its checkpoint', async () => {
    const { state, helm, install } = await start('  - {name: db, chart: ./db}\n');
    await install();
    await state.update((value) => ({ ...value, charts: {} })); // killed before its checkpoint
    helm.calls.length = 0;
    expect(await install()).toMatchObject({ installed: [], kept: ['db'] });
    expect(helm.calls).toEqual([]);
    // The checkpoint exists now. A release with other inputs does not count as installed.
    helm.calls.length = 0;
    expect(await install()).toMatchObject({ kept: ['db'] });
    expect(helm.calls).toEqual([]);
    await state.update((value) => ({ ...value, charts: {} }));
    expect(await install('  - {name: db, chart: ./db, values: {b: 1}}\n')).toMatchObject({
      installed: ['db'],
    });
  });

  test('installs a chart again when another program has changed its release', async () => {
    const { helm, install } = await start(TWO);
    await install();
    helm.changeElsewhere('shop/web');
    expect(await install()).toMatchObject({ installed: ['web'], kept: ['db'] });
    expect(helm.releases.get('shop/web')).toMatchObject({ revision: 3, values: '{"a":1}' });
    expect(await install()).toMatchObject({ installed: [], kept: ['db', 'web'] });
  });

  test('keeps a release whose revision an earlier version did not label', async () => {
    const { helm, install } = await start('  - {name: db, chart: ./db}\n');
    await install();
    const release = helm.releases.get('default/db');
    const labels = release?.labels?.split(',').filter((label) => !label.startsWith('cluster-revision'));
    helm.releases.set('default/db', { revision: 7, status: 'deployed', values: '', labels: String(labels) });
    expect(await install()).toMatchObject({ installed: [], kept: ['db'] });
  });

  test('removes values that cluster.yaml has no more', async () => {
    const { helm, install } = await start('  - {name: db, chart: ./db, values: {b: 1}}\n');
    await install();
    await install('  - {name: db, chart: ./db}\n');
    expect(helm.releases.get('default/db')?.values).toBe('{}');
  });

  test('waits for a helm process that a killed run left behind', async () => {
    const { helm, host, install } = await start('  - {name: db, chart: ./db}\n');
    helm.elsewhere = 2;
    await install();
    expect(host.codes).toEqual(['chart-settle', 'chart-db']);
    expect(helm.calls).toEqual(['upgrade db']);
  });

  const pending = [
    { status: 'pending-install', want: ['uninstall db', 'upgrade db'] },
    { status: 'uninstalling', want: ['uninstall db', 'upgrade db'] },
    { status: 'pending-upgrade', want: ['rollback db', 'upgrade db'] },
    { status: 'pending-rollback', want: ['rollback db', 'upgrade db'] },
    { status: 'failed', want: ['upgrade db'] },
  ];
  test.each(pending)(
    'recovers a release that a killed helm left in status $status',
    async ({ status, want }) => {
      const { helm, install } = await start('  - {name: db, chart: ./db}\n');
      helm.releases.set('default/db', { revision: 1, status, values: '' });
      await install();
      expect(helm.calls).toEqual(want);
    },
  );

  const pod = (state: unknown, more: object = {}) => ({
    metadata: { name: 'db-1', labels: { 'app.kubernetes.io/instance': 'db' } },
    status: { phase: 'Pending', containerStatuses: [{ name: 'main', restartCount: 7, state }], ...more },
  });
  const causes = [
    {
      name: 'an image that cannot be pulled',
      pod: pod({ waiting: { reason: 'ErrImagePull', message: 'no route' } }),
      want: 'container main cannot pull its image: ErrImagePull no route',
    },
    {
      name: 'a crash loop',
      pod: pod({ waiting: { reason: 'CrashLoopBackOff' } }),
      want: 'container main is in CrashLoopBackOff, 7 restarts',
    },
    {
      name: 'a container that cannot be created',
      pod: pod({ waiting: { reason: 'CreateContainerConfigError', message: 'secret "x" not found' } }),
      want: 'container main is waiting: CreateContainerConfigError secret "x" not found',
    },
    {
      name: 'a container that exited',
      pod: pod({ terminated: { reason: 'Error', exitCode: 3 } }),
      want: 'container main exited with code 3 Error',
    },
    {
      name: 'an unschedulable pod',
      pod: {
        ...pod({}),
        status: {
          phase: 'Pending',
          conditions: [{ type: 'PodScheduled', status: 'False', message: '0/1 nodes: cpu' }],
        },
      },
      want: 'unschedulable: 0/1 nodes: cpu',
    },
    {
      name: 'a failed readiness probe',
      pod: pod({}),
      want: 'main not ready (Unhealthy: Readiness probe failed)',
    },
  ];
  test.each(causes)('reports $name as the cause of a timeout', async ({ pod: given, want }) => {
    const events = [
      {
        type: 'Warning',
        reason: 'Unhealthy',
        message: 'Readiness probe failed',
        involvedObject: { name: 'db-1' },
      },
    ];
    const { helm, install } = await start('  - {name: db, chart: ./db}\n', { pods: [given], events });
    helm.fail = { name: 'db', words: 'Error: context deadline exceeded' };
    await expect(install()).rejects.toMatchObject({
      code: 'charts-timeout',
      details: { problems: [expect.stringContaining(want)] },
    });
  });

  test('reports the path of a missing chart', async () => {
    const { install } = await start('  - {name: x, chart: ./nowhere}\n');
    await expect(install()).rejects.toMatchObject({
      code: 'charts-source-missing',
      message: expect.stringContaining('/desk/nowhere'),
    });
  });
});
