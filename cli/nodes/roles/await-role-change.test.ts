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

test('awaitRoleChange() waits until the reports about the Kubernetes etcd show the change too, as the status does', async () => {
  const reports = [2, 2, 1];
  await using harness = await createCuratorHarness({
    getClusterInfo: async () => ({ directory: [], etcd: { hasLeader: true, members: [{ name: 'n1' }] } }),
    listNodes: async () => {
      const members = Array.from({ length: reports.shift() ?? 1 }, (_, index) => ({ name: `n${index + 1}` }));
      const status = { kubernetesEtcd: { hasLeader: true, members } };
      return {
        nodes: [{ nodeId: 'node-1', name: 'n1', state: NodeState.UP, health: NodeHealth.HEALTHY, status }],
      };
    },
  });
  const { owner } = harness;
  const context = { ...owner, ports: { ...owner.ports, clock: new FastForwardClock(1) } };
  await awaitRoleChange(context, { name: 'n3', voters: 1 });
  expect(reports).toEqual([]);
  expect(owner.host.updates.join()).toContain('the Kubernetes etcd has 2 voters, expected 1 voter');
});
