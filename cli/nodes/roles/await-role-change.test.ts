import { expect, test } from '@jest/globals';
import { NodeHealth, NodeState } from '../../../joinservice/curatorproto/gen/curator_pb.js';
import { createCuratorHarness } from '../../cluster/curator/fake-curator.ts';
import { FastForwardClock } from '../../cluster/curator/fake-fast-forward-clock.ts';
import { awaitRoleChange } from './await-role-change.ts';

test('awaitRoleChange() waits until a node that leaves reports that it deleted the shared keys', async () => {
  const reports = [true, true, false];
  await using harness = await createCuratorHarness({
    getClusterInfo: async () => ({ directory: [], etcd: { hasLeader: true, members: [{ name: 'n1' }] } }),
    listNodes: async () => ({
      nodes: [
        {
          nodeId: 'node-3',
          name: 'n3',
          state: NodeState.UP,
          health: NodeHealth.HEALTHY,
          status: { holdsKeys: reports.shift() ?? false },
        },
      ],
    }),
  });
  const { owner } = harness;
  const context = { ...owner, ports: { ...owner.ports, clock: new FastForwardClock(1) } };
  await awaitRoleChange(context, { name: 'n3', voters: 1, keys: 'deleted' });
  expect(reports).toEqual([]);
  expect(owner.host.updates.join()).toContain('n3 is still deleting the keys');
});
