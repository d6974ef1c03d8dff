import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { test } from 'node:test';
import { createHarness } from '../../machines/harness.ts';
import { StoryCluster } from '../harness/story-cluster.ts';
import { KubeBench, type CheckResult } from './kube-bench.ts';

const NAME = 'bench';
const PAGE = resolve(import.meta.dirname, '../../../docs/hardening.json');

interface Expected {
  readonly checks: {
    readonly failed: readonly { readonly id: string }[];
    readonly answered: Readonly<Record<string, string>>;
  };
}

await test('kube-bench finds what docs/hardening.md says, and nothing else', async (story) => {
  await using bench = await createHarness();
  const { checks } = JSON.parse(await readFile(PAGE, 'utf8')) as Expected;
  const tool = await KubeBench.build(bench);
  await bench.must('mini', 'up', '--name', NAME, '--control-planes', '1', '--workers', '1');
  const cluster = new StoryCluster(bench, NAME);

  for (const { machine, role, targets } of [
    { machine: 'n1', role: 'control plane', targets: ['master', 'etcd', 'controlplane', 'node', 'policies'] },
    { machine: 'n2', role: 'worker', targets: ['node'] },
  ])
    await story.test(
      `each check of a ${role} passes, fails with a known reason, or is manual and has an answer in docs/hardening.json`,
      async () => {
        const results = await tool.run(bench, cluster, { machine, targets });
        const having = (status: CheckResult['status']) => results.filter((each) => each.status === status);
        for (const { id, status, text, actual } of results)
          if (status !== 'PASS')
            story.diagnostic(`${machine} ${status} ${id} ${text} | ${actual.slice(0, 200)}`);
        const passed = having('PASS').length;
        story.diagnostic(
          `${machine}: ${results.length} checks, ${passed} passed, ${having('FAIL').length} failed`,
        );
        assert.ok(passed > 0);
        const ids = new Set(results.map(({ id }) => id));
        const expected = checks.failed.filter(({ id }) => ids.has(id)).map(({ id }) => id);
        assert.deepEqual(
          having('FAIL')
            .map(({ id }) => id)
            .toSorted(),
          expected.toSorted(),
        );
        const unanswered = having('WARN').filter(({ id }) => checks.answered[id] === undefined);
        assert.deepEqual(
          unanswered.map(({ id, text }) => `${id} ${text}`),
          [],
        );
      },
    );
});
