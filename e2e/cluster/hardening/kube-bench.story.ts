import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { test } from 'node:test';
import { parse } from 'yaml';
import { createHarness } from '../../machines/harness.ts';
import { StoryCluster } from '../harness/story-cluster.ts';
import { findDifferences, findStaleIds, type ExpectedChecks } from './compare-checks.ts';
import { ETCD_CONFIG, KubeBench, type CheckResult } from './kube-bench.ts';
import { looseFiles, lostFlags, lostKeys, pathsIn, type Loss } from './lost-settings.ts';

const NAME = 'bench';
/** As `ps` prints their names. */
const PROGRAMS = ['kube-apiserver', 'kube-controller-manager', 'kube-scheduler', 'kubelet'] as const;
const CONFIGURATIONS = ['/var/lib/kubelet/config.yaml', ETCD_CONFIG] as const;
const PAGE = resolve(import.meta.dirname, '../../../docs/hardening.json');

await test('kube-bench finds what docs/hardening.md says, and nothing else', async (story) => {
  await using bench = await createHarness();
  const { checks } = JSON.parse(await readFile(PAGE, 'utf8')) as { checks: ExpectedChecks };
  const tool = await KubeBench.build(bench);
  await bench.must('mini', 'up', '--name', NAME, '--control-planes', '1', '--workers', '1');
  const cluster = new StoryCluster(bench, NAME);
  const printed: CheckResult[] = [];

  const passed: Record<string, readonly CheckResult[]> = {};
  for (const { machine, role, targets } of [
    { machine: 'n1', role: 'control plane', targets: ['master', 'etcd', 'controlplane', 'node', 'policies'] },
    { machine: 'n2', role: 'worker', targets: ['node'] },
  ] as const) {
    await tool.install(bench, cluster, machine);
    await story.test(`each check of a ${role} has the result that docs/hardening.json says`, async () => {
      const results = await tool.run(bench, cluster, { machine, targets });
      const having = (status: CheckResult['status']) => results.filter((each) => each.status === status);
      for (const { id, status, text, actual } of results)
        if (status !== 'PASS')
          story.diagnostic(`${machine} ${status} ${id} ${text} | ${actual.slice(0, 200)}`);
      passed[machine] = having('PASS');
      const { length } = having('PASS');
      story.diagnostic(
        `${machine}: ${results.length} checks, ${length} passed, ${having('FAIL').length} failed`,
      );
      assert.ok(length > 0);
      printed.push(...results);
      assert.deepEqual(findDifferences(results, role, checks), []);
    });
  }

  await story.test(
    'a check that passes fails when its setting is lost, or docs/hardening.json says why not',
    async () => {
      const targets = ['master', 'etcd', 'controlplane', 'node'];
      const cases = (passed['n1'] ?? []).filter(({ id }) => !id.startsWith('5.'));
      const failedBy = new Map<string, string[]>();
      for (const loss of await lossesOf(cluster, cases)) {
        const results = await tool.run(bench, cluster, { machine: 'n1', targets, loss });
        const passes = new Set(results.flatMap(({ id, status }) => (status === 'PASS' ? [id] : [])));
        for (const { id } of cases)
          if (!passes.has(id)) failedBy.set(id, [...(failedBy.get(id) ?? []), loss.name]);
      }
      for (const [id, names] of failedBy) story.diagnostic(`${id} fails without ${names.join(', or ')}`);
      const indifferent = cases.filter(({ id }) => !failedBy.has(id));
      for (const { id, text } of indifferent) story.diagnostic(`${id} passes in any case: ${text}`);
      assert.deepEqual(
        indifferent.map(({ id }) => id).toSorted(),
        Object.keys(checks.indifferent).toSorted(),
      );
    },
  );

  await story.test(
    'docs/hardening.json has no reason or answer for a check that kube-bench does not print',
    () => {
      assert.deepEqual(findStaleIds(printed, checks), []);
    },
  );
});

/** Everything that a control plane can lose: each flag, each key of a configuration file, owners and modes of files. */
async function lossesOf(cluster: StoryCluster, passed: readonly CheckResult[]): Promise<readonly Loss[]> {
  const flags = PROGRAMS.map(async (program) =>
    lostFlags(program, await cluster.sh('n1', `ps -ww -e -o args= | grep -m 1 -E '^([^ ]*/)?${program} '`)),
  );
  const keys = CONFIGURATIONS.map(async (path) =>
    lostKeys(path, parse(await cluster.sh('n1', `cat ${path}`)) as unknown),
  );
  const paths = new Set(passed.flatMap(({ audit }) => pathsIn(audit)));
  return [...(await Promise.all([...flags, ...keys])).flat(), looseFiles([...paths])];
}
