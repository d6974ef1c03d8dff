import { describe, expect, test } from '@jest/globals';
import { NodeRole, type Node } from '../../joinservice/curatorproto/gen/curator_pb.js';
import { createCuratorHarness } from '../cluster/curator/fake-curator.ts';
import { requireSafeChange } from './require-safe-change.ts';

const CONTROL = [NodeRole.CONSENSUS_MEMBER, NodeRole.KUBERNETES_CONTROLLER];
const ETCD = { hasLeader: true, members: ['a', 'b', 'c'].map((each) => ({ name: `node-${each}` })) };

/** Three control planes: n1 has found that the members of this node has other content than the others. */
async function createCluster(differing: readonly string[]) {
  const compared = { sinceMs: 1n, comparedMs: BigInt(Date.now()), agreeing: ['node-a', 'node-c'], differing };
  const nodes = ['a', 'b', 'c'].map((each, index) => ({
    ...{ nodeId: `node-${each}`, name: `n${index + 1}`, roles: CONTROL, state: 3, health: 1 },
    status: { ...(index === 0 && { etcdContents: { state: { ...compared } } }) },
  }));
  return createCuratorHarness({
    getClusterInfo: async () => ({ clusterName: 'prod', etcd: ETCD }),
    listNodes: async () => ({ nodes: nodes as unknown as Node[] }),
  });
}

const removal = { doing: 'removing node n3', node: 'n3', staysControlPlane: false, skipChecks: false };

describe('requireSafeChange()', () => {
  test('refuses to remove a good member while another one is damaged, and says what to do first', async () => {
    await using harness = await createCluster(['node-b']);
    await expect(requireSafeChange(harness.owner, removal)).rejects.toMatchObject({
      code: 'doctor-change-unsafe',
      message: expect.stringMatching(
        /^removing node n3: the state etcd member of n2 has other content than n1 and n3/,
      ),
      fix: expect.stringMatching(/n2.*If this change is a part of that, add `--skip-checks`\.$/),
      details: { problem: 'doctor-etcd-content' },
    });
    await requireSafeChange(harness.owner, { ...removal, skipChecks: true });
    await requireSafeChange(harness.owner, { ...removal, node: 'n2' });
  });

  test('permits the change when all members agree, and leaves the error to the command when no curator responds', async () => {
    const harness = await createCluster([]);
    await requireSafeChange(harness.owner, removal);
    await harness[Symbol.asyncDispose]();
    await requireSafeChange(harness.owner, removal);
  });
});
