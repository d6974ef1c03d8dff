import assert from 'node:assert/strict';
import { once } from 'node:events';
import { join } from 'node:path';
import { test } from 'node:test';
import { hostAddress } from '../../../internal/localmachines/index.ts';
import { createHarness } from '../../machines/harness.ts';
import { ChartHarness, type ChartEntry } from './chart-harness.ts';
import { ChartSources } from './chart-sources.ts';
import { eventually } from '../harness/node-shell.ts';

await test('charts from a registry, a repository and an archive', async (story) => {
  await using bench = await createHarness();
  await bench.must('mini', 'up', '--name', 'charts');
  const cluster = await bench.cluster('charts');
  const { address } = await cluster.node('n1');
  const { workspace } = cluster.paths;
  await using sources = await ChartSources.start(bench.directory, hostAddress(cluster.network));
  await sources.push('0.1.0');
  await sources.publish('0.2.0');
  await sources.publish('0.2.1');
  await sources.pack('0.3.0', workspace);

  const db: ChartEntry = {
    name: 'db',
    chart: `oci://${sources.registry.address}/charts/hello`,
    version: '0.1.0',
    plainHttp: true,
    namespace: 'store',
    values: { replicas: 2 },
  };
  const web: ChartEntry = {
    name: 'web',
    chart: 'hello',
    repository: sources.repository.url,
    version: '0.2.0',
    namespace: 'shop',
    values: { service: { nodePort: 30090 } },
    needs: ['db'],
  };
  const tail: ChartEntry = { name: 'tail', chart: './hello-0.3.0.tgz', needs: ['web'] };
  // cluster.yaml lists the charts in another order than their dependencies require.
  const three = [tail, web, db];
  const harness = new ChartHarness(bench, { cluster: 'charts', workspace });

  await story.test('--skip-charts downloads and installs nothing', async () => {
    await harness.configure(three);
    const asked = sources.registry.requests.length;
    assert.deepEqual((await harness.init('--skip-charts')).charts, []);
    assert.deepEqual(await harness.releases(), ['flannel 1']);
    assert.equal(sources.registry.requests.length, asked);
    assert.deepEqual(sources.repository.requests, []);
  });

  await story.test('--only installs the named chart and its dependencies from the registry', async () => {
    assert.deepEqual((await harness.init('--only', 'db')).charts, ['db']);
    assert.deepEqual(await harness.releases(), ['db 1', 'flannel 1']);
    const [release] = (await harness.list()).filter(({ name }) => name === 'db');
    assert.deepEqual(
      [release?.namespace, release?.chart, release?.status],
      ['store', 'hello-0.1.0', 'deployed'],
    );
    assert.ok(sources.registry.requests.some((line) => line.startsWith('GET /v2/charts/hello/blobs/')));
    const replicas = ['get', 'deployment', 'db', '-n', 'store', '-o', 'jsonpath={.status.readyReplicas}'];
    assert.equal(await harness.kubectl(...replicas), '2', 'the values of the configuration');
    assert.deepEqual(sources.repository.requests, [], 'charts that it does not need are not fetched');
  });

  await story.test(
    'after kill -9 during the download of a chart, the next run resumes the download',
    async () => {
      const held = sources.repository.hold('/hello-0.2.0.tgz');
      const cli = bench.startCli('--workspace', workspace, 'init');
      await held.asked;
      const ended = once(cli, 'close');
      cli.kill('SIGKILL');
      await harness.killHelm();
      await ended;
      held.go();
      assert.deepEqual(await harness.releases(), ['db 1', 'flannel 1']);
      const { charts } = await harness.init();
      assert.deepEqual(charts, ['web', 'tail'], 'in the order of needs, and db is not touched');
      assert.deepEqual(await harness.releases(), ['db 1', 'flannel 1', 'tail 1', 'web 1']);
      assert.match(await (await fetch(`http://${address}:30090/`)).text(), /pod=web-/);
    },
  );

  await story.test('the same command again changes nothing and reports that', async () => {
    const requests = sources.registry.requests.length;
    const again = await harness.init();
    assert.deepEqual([again.charts, again.unchanged], [[], true]);
    assert.deepEqual(await harness.releases(), ['db 1', 'flannel 1', 'tail 1', 'web 1']);
    assert.equal(sources.registry.requests.length, requests);
  });

  await story.test('a new version or new values change only the chart that they belong to', async () => {
    await harness.configure([tail, { ...web, version: '0.2.1' }, { ...db, values: { replicas: 1 } }]);
    assert.deepEqual((await harness.init()).charts, ['db', 'web']);
    assert.deepEqual(await harness.releases(), ['db 2', 'flannel 1', 'tail 1', 'web 2']);
  });

  await story.test(
    'after kill -9 of CLI and helm during an install, the next run completes it and the chart is installed once',
    async () => {
      const late: ChartEntry = {
        name: 'late',
        chart: './hello-0.3.0.tgz',
        values: { image: 'cluster.local/none:1' },
      };
      const now = [tail, { ...web, version: '0.2.1' }, { ...db, values: { replicas: 1 } }];
      await harness.configure([...now, late]);
      const cli = bench.startCli('--workspace', workspace, 'init');
      const ended = once(cli, 'close');
      await eventually(
        'helm waits for a pod',
        60,
        () => harness.list(),
        (list) => list.some(({ name, status }) => name === 'late' && status === 'pending-install'),
      );
      cli.kill('SIGKILL');
      await harness.killHelm();
      await ended;
      await harness.configure([...now, { ...late, values: {} }]);
      assert.deepEqual((await harness.init()).charts, ['late']);
      assert.deepEqual(await harness.releases(), ['db 2', 'flannel 1', 'late 1', 'tail 1', 'web 2']);
    },
  );

  await story.test('a change by helm alone is named by the doctor, and undone by the next run', async () => {
    const chartsNamed = async (): Promise<readonly string[]> => {
      const { stdout } = await bench.cli('--workspace', workspace, '-o', 'json', 'doctor');
      const { data } = JSON.parse(stdout.trim().split('\n').at(-1) ?? '') as {
        readonly data: {
          readonly problems: readonly { code: string; subject: string; cause: string }[];
        };
      };
      return data.problems
        .filter(({ code }) => code === 'doctor-chart')
        .map(({ subject, cause }) => `${subject}: ${cause}`);
    };
    await harness.configure([
      { ...web, version: '0.2.1', needs: [] },
      { ...db, values: { replicas: 1 } },
    ]);
    assert.deepEqual(await chartsNamed(), []);
    await harness.upgradeManually('db', 'store', join(workspace, 'hello-0.3.0.tgz'), 'replicas=2');
    await harness.configure([
      { ...web, version: '0.2.1', needs: [], values: {} },
      { ...db, values: { replicas: 1 } },
    ]);
    assert.deepEqual((await chartsNamed()).toSorted(), [
      'chart db: the release of chart db was changed by another program: `cluster init` installed revision 2, the newest is 3',
      'chart web: the release of chart web differs from cluster.yaml',
    ]);
    assert.deepEqual((await harness.init()).charts, ['web', 'db']);
    assert.deepEqual(await chartsNamed(), []);
    const replicas = ['get', 'deployment', 'db', '-n', 'store', '-o', 'jsonpath={.spec.replicas}'];
    assert.equal(await harness.kubectl(...replicas), '1', 'the values of the configuration');
    assert.deepEqual(
      await harness.values('web', 'shop'),
      {},
      'values that the configuration has no more are gone',
    );
    assert.deepEqual((await harness.init()).charts, [], 'nothing is left to do');
  });

  const refusals = [
    { name: 'a version that the registry does not have', chart: { ...db, version: '9.9.9' } },
    { name: 'a version that the repository does not have', chart: { ...web, needs: [], version: '9.9.9' } },
    { name: 'a registry without TLS that nobody declared so', chart: { ...db, plainHttp: false } },
  ];
  for (const { name, chart } of refusals) {
    await story.test(`${name}: the error names the chart and has its own exit code`, async () => {
      await harness.configure([{ ...chart, name: 'wrong' }]);
      const refused = await bench.cli('--workspace', workspace, 'init');
      assert.equal(refused.code, 6, refused.stderr);
      assert.match(refused.stderr, /charts-source-unreachable/);
      assert.match(refused.stderr, /installing chart wrong/);
    });
  }
});
