import { describe, expect, test } from '@jest/globals';
import { NodeHealth, NodeState } from '../../joinservice/curatorproto/gen/curator_pb.js';
import { layoutOf } from '../workspace/index.ts';
import { createCuratorHarness } from '../cluster/curator/fake-curator.ts';
import { runApprove, runLabel, runRefuse, runSetRole, runTaint } from './index.ts';
import { runOperatorAdd, runOperatorKey, runOperatorRemove } from '../operators/index.ts';

type Mutating = { readonly mutation?: { readonly idempotencyKey: string } | undefined };
const drain = { force: false, deleteEmptyDirData: false, timeoutMs: 1 };

/** Two curators; the first one executes the request, but its answer is lost. */
async function createDeaf() {
  const keys: string[] = [];
  const once = <T>(answer: T) => {
    return async ({ mutation }: Mutating): Promise<T> => {
      keys.push(mutation?.idempotencyKey ?? '');
      if (keys.length === 1) throw new Error('the answer was lost');
      return answer;
    };
  };
  const node = { nodeId: 'node-2', name: 'n2', state: NodeState.UP, health: NodeHealth.HEALTHY };
  const harness = await createCuratorHarness(
    {
      getNode: async () => ({ node }),
      listNodes: async () => ({ nodes: [node] }),
      getClusterInfo: async () => ({ directory: [], etcd: { hasLeader: true, members: [] } }),
      updateNodeLabels: once({ node }),
      updateNodeTaints: once({ node }),
      setNodeRoles: once({ node }),
    },
    {
      listJoins: async () => ({ joins: [], dropped: 0n }),
      decideJoin: once({}),
      deleteOperator: once({}),
      putOperator: once({ certificatePem: '', clusterCaPem: '' }),
    },
  );
  const { files, owner, endpoint } = harness;
  const endpoints = [endpoint.replace('127.0.0.1', 'localhost'), endpoint];
  await files.writeAtomic(layoutOf('/owner').curators, JSON.stringify({ version: 1, endpoints }));
  await runOperatorKey(owner, 'ann', { request: '/ann/ann.csr' });
  await files.remove(layoutOf('/owner').identity);
  return { ...harness, keys };
}

type Context = Awaited<ReturnType<typeof createDeaf>>['owner'];

describe('a call that is repeated at a second curator', () => {
  const commands: readonly { name: string; run: (context: Context) => Promise<unknown> }[] = [
    {
      name: 'operator remove',
      run: (context) => runOperatorRemove(context, 'ann', { dryRun: false, yes: true }),
    },
    {
      name: 'operator add',
      run: (context) =>
        runOperatorAdd(context, 'ann', { role: 'viewer', request: '/ann/ann.csr', out: undefined }),
    },
    {
      name: 'node approve',
      run: (context) => runApprove(context, 'node-2', { name: undefined, roles: [], labels: {} }),
    },
    { name: 'node refuse', run: (context) => runRefuse(context, 'node-2', { reason: 'unknown' }) },
    { name: 'node label', run: (context) => runLabel(context, 'n2', ['a=b']) },
    {
      name: 'node taint',
      run: (context) => runTaint(context, 'n2', ['a=b:NoSchedule'], { dryRun: false, yes: false }),
    },
    {
      name: 'node set-role',
      run: (context) => runSetRole(context, 'n2', { roles: ['worker'], dryRun: false, yes: true, drain }),
    },
  ];
  test.each(commands)('keeps its idempotency key: $name', async ({ run }) => {
    await using harness = await createDeaf();
    await run(harness.owner);
    expect(harness.keys).toHaveLength(2);
    expect(harness.keys[0]).toMatch(/^[0-9a-f-]{36}$/);
    expect(harness.keys[1]).toBe(harness.keys[0]);
  });
});
