import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DEFAULT_KUBERNETES_VERSION, KUBERNETES_VERSIONS } from '../../../internal/bundle/index.ts';
import { createHarness } from '../../machines/harness.ts';
import { eventually, NodeShell } from '../harness/node-shell.ts';

const NAME = 'older';
const OLDER = KUBERNETES_VERSIONS.filter((version) => version !== DEFAULT_KUBERNETES_VERSION);

for (const version of OLDER)
  await test(`Kubernetes ${version} can be built, verified and installed as a cluster`, async (story) => {
    await using bench = await createHarness();

    await story.test('each component is built from its Go modules and has the recorded hash', async () => {
      await bench.must('bundle', 'build', '--kubernetes-version', version);
      await bench.must('bundle', 'verify', '--kubernetes-version', version);
    });

    await story.test('the sample chart responds', async () => {
      const out = await bench.must('mini', 'up', '--name', NAME, '--kubernetes-version', version, '--demo');
      assert.match(out, /says: pod=hello-/);
    });

    const node = new NodeShell(bench, NAME);
    await story.test('every component has this version, all pods run, and none restarted', async () => {
      assert.match(
        await node.kubectl('get', 'nodes', '--no-headers'),
        new RegExp(`^n1 +Ready .*${version}$`, 'm'),
      );
      assert.match(await node.kubectl('get', '--raw', '/version'), new RegExp(`"gitVersion": *"${version}"`));
      const pods = await eventually(
        'all pods run',
        60,
        () => node.kubectl('get', 'pods', '-A', '--no-headers'),
        (text) => text.split('\n').every((line) => / Running /.test(line)),
      );
      for (const line of pods.split('\n')) assert.match(line, / Running +0 /);
    });

    await bench.must('mini', 'down', '--name', NAME, '--yes');
  });
