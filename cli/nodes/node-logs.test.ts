import { expect, test } from '@jest/globals';
import { createCuratorHarness } from '../cluster/curator/fake-curator.ts';
import { runNodeLogs } from './index.ts';

const options = { exact: false, units: [], audit: false, backlog: 1, follow: false };

test('runNodeLogs() refuses an unknown runnable and accepts the parent of a known one', async () => {
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

test('runNodeLogs() prints long entries of the audit log whole, and refuses --audit with another log', async () => {
  const asked: unknown[] = [];
  const line = JSON.stringify({ kind: 'Event', verb: 'get', responseObject: 'x'.repeat(30_000) });
  await using harness = await createCuratorHarness(
    {},
    {},
    {
      streamAuditLog: async function* (request) {
        asked.push(request);
        yield { lines: Buffer.from(`${line}\n`), dropped: 0n };
      },
    },
  );
  const audit = { ...options, path: '', audit: true, backlog: 7, follow: true };
  await runNodeLogs(harness.owner, 'n1', audit);
  expect(asked).toMatchObject([{ node: 'n1', auditLog: { backlog: 7, follow: true } }]);
  expect(harness.owner.host.records).toMatchObject([{ kind: 'result', text: line }]);
  for (const other of [{ path: 'root' }, { units: ['kubelet'] }])
    await expect(runNodeLogs(harness.owner, 'n1', { ...audit, ...other })).rejects.toMatchObject({
      code: 'app-usage',
    });
});
