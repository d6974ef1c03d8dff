import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { EXIT_CODES } from '../../internal/errors/index.ts';
import { NodeHealth, NodeRole, NodeState, type Node } from '../../joinservice/curatorproto/gen/curator_pb.js';
import { createCliHarness, type CliHarness } from '../app/fake-cli.ts';
import { createCuratorHarness } from '../cluster/curator/fake-curator.ts';

const CONTROL = [NodeRole.CONSENSUS_MEMBER, NodeRole.KUBERNETES_CONTROLLER];
const WORK = [NodeRole.KUBERNETES_WORKER];
const MEMBERS = ['a', 'b', 'c'].map((each) => ({ name: `node-${each}` }));

let cli: CliHarness;
let harness: Awaited<ReturnType<typeof createCuratorHarness>>;
/** Calls that would change something. */
const changes: string[] = [];

beforeAll(async () => {
  cli = await createCliHarness();
  const compared = { sinceMs: 1n, comparedMs: BigInt(Date.now()), agreeing: ['node-a', 'node-c'] };
  const state = { ...compared, differing: ['node-b'] };
  const nodes = ['a', 'b', 'c', 'd'].map((each, index) => ({
    ...{ nodeId: `node-${each}`, name: `n${index + 1}`, roles: each === 'd' ? WORK : CONTROL },
    ...{ state: NodeState.UP, health: NodeHealth.HEALTHY },
    status: index === 0 ? { etcdContents: { state } } : {},
  }));
  const change = (name: string) => async (): Promise<never> => {
    changes.push(name);
    throw new Error(`${name} must not be called`);
  };
  harness = await createCuratorHarness(
    {
      getClusterInfo: async () => ({ clusterName: 'prod', etcd: { hasLeader: true, members: MEMBERS } }),
      listNodes: async () => ({ nodes: nodes as unknown as Node[] }),
      setNodeRoles: change('setNodeRoles'),
      setNodeState: change('setNodeState'),
      deleteNode: change('deleteNode'),
    },
    {
      rotateKeys: change('rotateKeys'),
      decideJoin: change('decideJoin'),
      listJoins: async () => ({ joins: [] }),
    },
    { changePower: change('changePower') },
  );
  await cli.copy(harness.files, '/owner', 'owner');
});
afterAll(async () => {
  for (const each of [harness, cli]) await each[Symbol.asyncDispose]();
});

describe('while the doctor finds that the etcd member of n2 is damaged', () => {
  test.each([
    'node remove n3 --yes',
    'node remove n3 --lost --dry-run',
    'node reset n3 --yes',
    'node set-role n3 --worker --yes',
    'node set-role n4 --control-plane --dry-run',
    'node reboot n1 --yes',
    'node approve 0123456789abcdef --roles control-plane,worker',
    'keys rotate --yes',
    'keys rotate --dry-run',
  ])('`cluster %s` is refused', async (line) => {
    const { code, err } = await cli.run(['-w', 'owner', ...line.split(' ')]);
    expect(err).toMatch(
      /the state etcd member of n2 has other content than n1 and n3.*doctor-change-unsafe/s,
    );
    expect(err).toContain('--skip-checks');
    expect([code, changes]).toEqual([EXIT_CODES.precondition.number, []]);
  });

  test.each([
    'node set-role n2 --worker --dry-run',
    'node remove n2 --lost --dry-run',
    'node shutdown n2 --dry-run',
    'node remove n4 --dry-run',
    'node remove n3 --dry-run --skip-checks',
    'node approve 0123456789abcdef',
  ])('`cluster %s` is not', async (line) => {
    const { err } = await cli.run(['-w', 'owner', ...line.split(' ')]);
    expect(err).not.toContain('doctor-change-unsafe');
  });
});
