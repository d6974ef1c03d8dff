import { expect, test } from '@jest/globals';
import { NodeHealth, NodeRole, NodeState } from '../../joinservice/curatorproto/gen/curator_pb.js';
import { contextOf, createDesk } from './fake-desk.ts';
import { runOperatorAccept, runOperatorAdd, runOperatorKey, runReset } from './index.ts';

test('a node is not emptied for an order that nobody here can sign', async () => {
  const asked: string[] = [];
  const node = {
    nodeId: 'node-2',
    name: 'n2',
    state: NodeState.UP,
    health: NodeHealth.HEALTHY,
    roles: [NodeRole.KUBERNETES_WORKER],
  };
  await using desk = await createDesk({
    getNode: async () => (asked.push('getNode'), { node }),
    listNodes: async () => ({ nodes: [node] }),
    setNodeRoles: async () => (asked.push('setNodeRoles'), { node }),
  });
  const { files, owner } = desk;
  const ann = contextOf(files, '/ann');
  await runOperatorKey(ann, 'ann', { request: undefined });
  await runOperatorAdd(owner, 'ann', { role: 'operator', request: '/ann/ann.csr', out: '/ann/ann.grant' });
  await runOperatorAccept(ann, '/ann/ann.grant');
  const drain = { force: false, deleteEmptyDirData: false, timeoutMs: 1 };
  await expect(runReset(ann, 'n2', { dryRun: false, drain })).rejects.toMatchObject({
    code: 'workspace-missing',
  });
  expect(asked).toEqual([]);
});
