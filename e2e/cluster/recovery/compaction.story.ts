import { test } from 'node:test';
import { createHarness } from '../../machines/harness.ts';
import { eventually, NodeShell } from '../harness/node-shell.ts';

await test('the API server compacts its etcd regularly, although it may read only its own keys', async () => {
  await using bench = await createHarness();
  await bench.must('mini', 'up', '--name', 'compact');
  const node = new NodeShell(bench, 'compact');
  const revision = async (): Promise<number> =>
    Number((await node.etcdctl('apiserver', 'get', 'compact_rev_key', '--print-value-only')).stdout.trim());
  // The API server compacts every five minutes.
  const first = await eventually('a first compaction', 700, revision, (at) => at > 0);
  await eventually('a second compaction', 400, revision, (at) => at > first);
});
