import { expect, test } from '@jest/globals';
import { NodeHealth, NodeRole, NodeState } from '../../../joinservice/curatorproto/gen/curator_pb.js';
import { contextOf, createCuratorHarness } from '../../cluster/curator/fake-curator.ts';
import { runRemove, runReset } from '../index.ts';
import { runOperatorAccept, runOperatorAdd, runOperatorKey } from '../../operators/index.ts';

test('runReset() and runRemove() fail before the first change without an owner key or a kubeconfig', async () => {
  const asked: string[] = [];
  const node = {
    nodeId: 'node-2',
    name: 'n2',
    state: NodeState.UP,
    health: NodeHealth.HEALTHY,
    roles: [NodeRole.KUBERNETES_WORKER],
  };
  await using harness = await createCuratorHarness({
    getNode: async () => (asked.push('getNode'), { node }),
    listNodes: async () => ({ nodes: [node] }),
    setNodeRoles: async () => (asked.push('setNodeRoles'), { node }),
  });
  const { files, owner } = harness;
  const ann = contextOf(files, '/ann');
  await runOperatorKey(ann, 'ann', { request: undefined });
  await runOperatorAdd(owner, 'ann', { role: 'operator', request: '/ann/ann.csr', out: '/ann/ann.grant' });
  await runOperatorAccept(ann, '/ann/ann.grant');
  const drain = { force: false, deleteEmptyDirData: false, timeoutMs: 1 };
  await expect(runReset(ann, 'n2', { dryRun: false, yes: true, drain })).rejects.toMatchObject({
    code: 'nodes-change-unsafe',
  });
  const keys = { keep: true, wait: false };
  for (const isLost of [false, true])
    await expect(
      runRemove(ann, 'n2', { dryRun: false, yes: true, isLost, drain, keys }),
    ).rejects.toMatchObject({
      code: 'cluster-no-kubeconfig',
    });
  expect(asked).toEqual([]);
});
