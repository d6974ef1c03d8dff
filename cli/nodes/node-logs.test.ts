import { expect, test } from '@jest/globals';
import { createCuratorHarness } from '../cluster/curator/fake-curator.ts';
import { runNodeLogs } from './index.ts';

const options = { exact: false, units: [], backlog: 1, follow: false };

test('runNodeLogs() refuses an unknown runnable and accepts the parent of one', async () => {
  await using harness = await createCuratorHarness(
    {
      getNode: async () => ({
        node: { name: 'n1', status: { runnables: [{ path: 'root.kubernetes.api' }] } },
      }),
    },
    {},
    {
      streamLogs: async function* () {
        yield { lines: Buffer.from('said\n'), dropped: 0n };
      },
    },
  );
  await expect(runNodeLogs(harness.owner, 'n1', { ...options, path: 'root.kube' })).rejects.toMatchObject({
    code: 'app-usage',
    message: 'no runnable "root.kube" found on node "n1"',
  });
  for (const path of ['', 'root', 'root.kubernetes', 'root.kubernetes.api'])
    await runNodeLogs(harness.owner, 'n1', { ...options, path });
  expect(harness.owner.host.records).toHaveLength(4);
});
