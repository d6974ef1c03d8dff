import { describe, expect, test } from '@jest/globals';
import { NodeRole, type Node } from '../../joinservice/curatorproto/gen/curator_pb.js';
import { createCuratorHarness } from '../cluster/curator/fake-curator.ts';
import { chooseBackupNode, requireSafeChange } from './require-safe-change.ts';

const CONTROL = [NodeRole.CONSENSUS_MEMBER, NodeRole.KUBERNETES_CONTROLLER];
const ETCD = { hasLeader: true, members: ['a', 'b', 'c'].map((each) => ({ name: `node-${each}` })) };

/** Three control planes, of which some do not respond: n1 has found that the members of some nodes have other content than the others. */
async function createCluster(
  differing: readonly string[],
  agreeing: readonly string[] = ['node-a', 'node-c'],
  away: readonly string[] = [],
) {
  const compared = { sinceMs: 1n, comparedMs: BigInt(Date.now()), agreeing, differing };
  const nodes = ['a', 'b', 'c'].map((each, index) => ({
    ...{
      nodeId: `node-${each}`,
      name: `n${index + 1}`,
      roles: CONTROL,
      state: 3,
      health: away.includes(`node-${each}`) ? 3 : 2,
    },
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

describe('chooseBackupNode()', () => {
  test('chooses a control plane whose data is right, and the one that the owner names', async () => {
    await using harness = await createCluster(['node-a'], ['node-b', 'node-c']);
    expect(await chooseBackupNode(harness.owner, undefined, false)).toBe('node-b');
    expect(await chooseBackupNode(harness.owner, 'n3', false)).toBe('n3');
  });

  test('prefers one that responds', async () => {
    await using harness = await createCluster([], ['node-a', 'node-b', 'node-c'], ['node-a']);
    expect(await chooseBackupNode(harness.owner, undefined, false)).toBe('node-b');
  });

  test('refuses a damaged one, unless its data is wanted all the same', async () => {
    await using harness = await createCluster(['node-b']);
    await expect(chooseBackupNode(harness.owner, 'n2', false)).rejects.toMatchObject({
      code: 'doctor-backup-damaged',
      message: expect.stringMatching(/^taking a backup on n2: the state etcd member of n2 has other content/),
    });
    expect(await chooseBackupNode(harness.owner, 'n2', true)).toBe('n2');
  });

  test('chooses none without a majority: the owner names each of them', async () => {
    await using harness = await createCluster(['node-a', 'node-b', 'node-c'], []);
    await expect(chooseBackupNode(harness.owner, undefined, false)).rejects.toMatchObject({
      code: 'doctor-backup-damaged',
      fix: expect.stringContaining('Take a backup from each of the control planes'),
    });
    expect(await chooseBackupNode(harness.owner, 'n2', false)).toBe('n2');
  });

  test('leaves the error to the command when no curator responds', async () => {
    const harness = await createCluster([]);
    await harness[Symbol.asyncDispose]();
    expect(await chooseBackupNode(harness.owner, 'n2', false)).toBe('n2');
  });
});
