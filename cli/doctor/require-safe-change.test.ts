import { describe, expect, test } from '@jest/globals';
import { NodeRole, type Node } from '../../joinservice/curatorproto/gen/curator_pb.js';
import { createCuratorHarness } from '../cluster/curator/fake-curator.ts';
import { factsOfMachine } from '../../internal/doctor/fake-facts.ts';
import { chooseBackupNode, requireSafeChange, requireSoundMachine } from './require-safe-change.ts';

const CONTROL = [NodeRole.CONSENSUS_MEMBER, NodeRole.KUBERNETES_CONTROLLER];
const ETCD = { hasLeader: true, members: ['a', 'b', 'c'].map((each) => ({ name: `node-${each}` })) };

/** What control planes tell beside their records. */
interface Told {
  /** By ID of the node: how far its clock is ahead of that of n1. */
  readonly clocksMs?: Readonly<Record<string, number>>;
  /** By name of the node: the etcd clusters whose member responds on it. */
  readonly members?: Readonly<Record<string, readonly string[]>>;
}

/** Three control planes, of which some do not respond: n1 has found that the members of some nodes have other content than the others. */
async function createCluster(
  differing: readonly string[],
  agreeing: readonly string[] = ['node-a', 'node-c'],
  away: readonly string[] = [],
  told: Told = {},
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
  let endpoint = '';
  const directory = () =>
    nodes.map(({ nodeId, name }) => ({ nodeId, name, curatorEndpoint: name === 'n1' ? endpoint : '' }));
  const harness = await createCuratorHarness(
    {
      getClusterInfo: async () => ({ clusterName: 'prod', etcd: ETCD, directory: directory() }),
      listNodes: async () => ({ nodes: nodes as unknown as Node[] }),
      checkHealth: async () => ({
        clocks: Object.entries(told.clocksMs ?? {}).map(([nodeId, ms]) => ({ nodeId, offsetMs: BigInt(ms) })),
      }),
    },
    {},
    {
      getMetrics: async ({ node }) => ({
        text: (told.members?.[node ?? ''] ?? ['state', 'kubernetes'])
          .map((etcd) => `etcd_server_has_leader{etcd="${etcd}"} 1`)
          .join('\n'),
      }),
    },
  );
  ({ endpoint } = harness);
  return harness;
}

const removal = {
  ...{ doing: 'removing node n3', node: 'n3', skipChecks: false },
  action: 'member-leaves' as const,
};

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

  const approval = {
    ...{ doing: 'approving machine m', action: 'member-joins' as const },
    ...{ node: '', skipChecks: false },
  };

  test('refuses a further control plane while the clock of one is wrong, as a curator measures it', async () => {
    await using harness = await createCluster([], undefined, [], { clocksMs: { 'node-b': 600_000 } });
    await expect(requireSafeChange(harness.owner, approval)).rejects.toMatchObject({
      code: 'doctor-change-unsafe',
      message: expect.stringContaining('the clock of n2 is 10m ahead of n1'),
      details: { problem: 'doctor-clock' },
    });
  });

  test('refuses a further control plane while one does not respond', async () => {
    await using harness = await createCluster([], undefined, ['node-c']);
    await expect(requireSafeChange(harness.owner, approval)).rejects.toMatchObject({
      details: { problem: 'doctor-etcd-quorum' },
    });
  });

  test('refuses a restart while a member of etcd on another control plane does not respond', async () => {
    await using harness = await createCluster([], undefined, [], { members: { n2: ['kubernetes'] } });
    const restart = { ...removal, doing: 'restarting node n3', action: 'member-restarts' as const };
    await expect(requireSafeChange(harness.owner, restart)).rejects.toMatchObject({
      details: { problem: 'doctor-etcd-quorum' },
    });
    await requireSafeChange(harness.owner, { ...restart, node: 'n2' });
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

  test('prefers one whose members respond', async () => {
    await using harness = await createCluster([], undefined, [], { members: { n1: ['kubernetes'] } });
    expect(await chooseBackupNode(harness.owner, undefined, false)).toBe('node-b');
    expect(await chooseBackupNode(harness.owner, 'n1', false)).toBe('n1');
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

describe('requireSoundMachine()', () => {
  test('refuses a machine whose disk is full, and permits a sound one', () => {
    const fileSystems = [{ name: '/var/lib/cluster', capacityBytes: 100, availableBytes: 5 }];
    expect(() => requireSoundMachine(factsOfMachine({ fileSystems }), 'recovering blue')).toThrow(
      'recovering blue: /var/lib/cluster of n1 has 5 B free (5%)',
    );
    requireSoundMachine(factsOfMachine(), 'recovering blue');
  });
});
