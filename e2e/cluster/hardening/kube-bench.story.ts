import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { test } from 'node:test';
import { createHarness } from '../../machines/harness.ts';
import { StoryCluster } from '../harness/story-cluster.ts';
import { findDifferences, findStaleIds, type ExpectedChecks } from './compare-checks.ts';
import { KubeBench, type CheckResult } from './kube-bench.ts';

const NAME = 'bench';
const PAGE = resolve(import.meta.dirname, '../../../docs/hardening.json');

await test('kube-bench finds what docs/hardening.md says, and nothing else', async (story) => {
  await using bench = await createHarness();
  const { checks } = JSON.parse(await readFile(PAGE, 'utf8')) as { checks: ExpectedChecks };
  const tool = await KubeBench.build(bench);
  await bench.must('mini', 'up', '--name', NAME, '--control-planes', '1', '--workers', '1');
  const cluster = new StoryCluster(bench, NAME);
  const printed: CheckResult[] = [];

  for (const { machine, role, targets } of [
    { machine: 'n1', role: 'control plane', targets: ['master', 'etcd', 'controlplane', 'node', 'policies'] },
    { machine: 'n2', role: 'worker', targets: ['node'] },
  ] as const)
    await story.test(`each check of a ${role} has the result that docs/hardening.json says`, async () => {
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
      printed.push(...results);
      assert.deepEqual(findDifferences(results, role, checks), []);
    });

  await story.test(
    'docs/hardening.json has no reason or answer for a check that kube-bench does not print',
    () => {
      assert.deepEqual(findStaleIds(printed, checks), []);
    },
  );
});
