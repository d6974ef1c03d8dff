import { describe, expect, test } from '@jest/globals';
import { NodeHealth, NodeRole, NodeState } from '../../joinservice/curatorproto/gen/curator_pb.js';
import { createDesk } from './fake-desk.ts';
import { HastyClock } from './hasty-clock.ts';
import { runSetRole } from './index.ts';

const drain = { force: false, deleteEmptyDirData: false, timeoutMs: 1 };
const CONTROL = [NodeRole.CONSENSUS_MEMBER, NodeRole.KUBERNETES_CONTROLLER];

/** Two control planes on record, and an etcd that has so many voters each time it is asked. */
async function createFollowing(votersOf: (asked: number) => number) {
  const nodes = ['n1', 'n2'].map((name) => ({
    nodeId: `node-${name}`,
    name,
    state: NodeState.UP,
    health: NodeHealth.HEALTHY,
    roles: CONTROL,
  }));
  let asked = 0;
  let changes = 0;
  const desk = await createDesk({
    getNode: async () => ({ node: nodes[1] as (typeof nodes)[number] }),
    listNodes: async () => ({ nodes }),
    setNodeRoles: async () => (changes++, {}),
    getClusterInfo: async () => ({
      directory: [],
      etcd: {
        hasLeader: true,
        members: Array.from({ length: votersOf(asked++) }, () => ({ isLearner: false })),
      },
    }),
  });
  const owner = { ...desk.owner, ports: { ...desk.owner.ports, clock: new HastyClock() } };
  return { ...desk, owner, asked: () => asked, changes: () => changes };
}

const again = { roles: ['control-plane'], dryRun: false, drain } as const;

describe('cluster node set-role, run again after an earlier run was left', () => {
  test('waits until the node has followed what is on record', async () => {
    await using desk = await createFollowing((asked) => (asked < 5 ? 1 : 2));
    await runSetRole(desk.owner, 'n2', again);
    expect([desk.asked(), desk.changes()]).toEqual([6, 0]);
    expect(desk.owner.host.answered).toMatchObject({ plan: { isNothing: true } });
  });

  test('says what is missing when the node does not follow', async () => {
    await using desk = await createFollowing(() => 1);
    await expect(runSetRole(desk.owner, 'n2', again)).rejects.toMatchObject({
      code: 'manage-not-followed',
      retryable: true,
      message: expect.stringContaining('etcd has 1 of 2 voters'),
    });
  });

  test('only looks when it is asked what would happen', async () => {
    await using desk = await createFollowing(() => 1);
    await runSetRole(desk.owner, 'n2', { ...again, dryRun: true });
    expect(desk.asked()).toBe(1);
  });
});
