import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { describe, expect, test } from '@jest/globals';
import { CodedError, defineErrors, fault, retryable } from '../../../internal/errors/index.ts';
import {
  NodeHealth,
  NodeRole,
  NodeSchema,
  NodeState,
  type Node,
} from '../../../joinservice/curatorproto/gen/curator_pb.js';
import {
  RemovedKeys,
  type GetKeysResponseSchema,
} from '../../../joinservice/curatorproto/gen/operatorapi_pb.js';
import {
  ProbeResult_Outcome as Outcome,
  type ProbeRemovedRequest,
  type ProbeTask,
  type ProbeResultSchema,
} from '../../../joinservice/curatorproto/gen/streams_pb.js';
import { contextOf, createCuratorHarness } from '../../cluster/curator/fake-curator.ts';
import { FastForwardClock } from '../../cluster/curator/fake-fast-forward-clock.ts';
import { SHARED_KEYS } from '../../keys/index.ts';
import type { KeysView } from '../../cluster/index.ts';
import { runKeysRotate, runKeysShow } from '../../keys/index.ts';
import { runOperatorAccept, runOperatorAdd, runOperatorKey } from '../../operators/index.ts';
import { startKeyReplacement, awaitKeyReplacement, heldGeneration, keysOnDisk } from './replace-keys.ts';

const agreed = { dryRun: false, yes: true } as const;

type Answer = MessageInitShape<typeof GetKeysResponseSchema>;

const at = (generation: number, phase: string, more: Pick<Answer, 'awaited'> = {}): Answer => ({
  stage: { generation: BigInt(generation), phase },
  startedMs: 0n,
  phaseSinceMs: 0n,
  startedBy: 'operator:owner',
  reason: 'why',
  ...more,
});

const refusals = defineErrors({
  'curator-denied': fault.operator.refused('-', '-'),
  'etcd-unavailable': retryable.system.unreachable('-', '-'),
});
class Refusal extends CodedError<keyof typeof refusals> {
  constructor(code: keyof typeof refusals) {
    super(refusals, code, 'request');
  }
}

/** A cluster that returns these rotation states one after the other, then the last one again and again. */
async function createRotating(
  steps: readonly (Answer | Refusal)[],
  rotate?: () => Promise<object>,
  probe?: (probe: ProbeTask) => readonly MessageInitShape<typeof ProbeResultSchema>[],
) {
  const reasons: string[] = [];
  const replaced: number[] = [];
  let asked = 0;
  const harness = await createCuratorHarness(
    {
      listNodes: async () => ({
        nodes: [nodeOf({ nodeId: 'node-1', name: 'n1', health: NodeHealth.HEALTHY })],
      }),
    },
    {
      getKeys: async () => {
        const step = steps[Math.min(asked++, steps.length - 1)] ?? {};
        if (step instanceof Refusal) throw step;
        return step;
      },
      rotateKeys: async ({ reason, replaces }: { readonly reason: string; readonly replaces: bigint }) => {
        reasons.push(reason);
        replaced.push(Number(replaces));
        return rotate === undefined ? { generation: 2n } : rotate();
      },
    },
    {
      probeRemoved: async ({ probe: asked }: ProbeRemovedRequest) => ({
        report: { results: asked === undefined ? [] : [...(probe?.(asked) ?? [])] },
      }),
    },
  );
  const owner = { ...harness.owner, ports: { ...harness.owner.ports, clock: new FastForwardClock() } };
  return { ...harness, owner, reasons, replaced, asked: () => asked };
}

/** An operator with an identity file, who has no kubeconfig to renew. */
async function asOperator({
  files,
  owner,
}: Pick<Awaited<ReturnType<typeof createCuratorHarness>>, 'files' | 'owner'>) {
  const ann = contextOf(files, '/ann');
  await runOperatorKey(ann, 'ann', { request: undefined });
  await runOperatorAdd(owner, 'ann', { role: 'owner', request: '/ann/ann.csr', out: '/ann/ann.grant' });
  await runOperatorAccept(ann, '/ann/ann.grant');
  const again = contextOf(files, '/ann');
  return { ...again, ports: { ...again.ports, clock: new FastForwardClock() } };
}

const textOf = ({ host }: { host: { records: readonly object[] } }): string =>
  host.records.flatMap((record) => ('text' in record ? [String(record.text)] : [])).join('\n');

describe('cluster keys show', () => {
  test('shows the initial keys', async () => {
    await using harness = await createRotating([at(1, 'done')]);
    await runKeysShow(harness.owner);
    expect(textOf(harness.owner)).toBe('generation 1 (initial)');
    expect(harness.owner.host.answered).toMatchObject({ keys: { generation: 1, isDone: true } });
  });

  test('shows since when rotated keys are current', async () => {
    await using harness = await createRotating([at(2, 'done')]);
    await runKeysShow(harness.owner);
    expect(textOf(harness.owner)).toMatch(
      /^generation 2, current for .*, requested .* ago by operator:owner: why$/,
    );
  });

  test('shows the phase, requester and reason of a rotation, and the nodes it waits for', async () => {
    const awaited = [{ nodeId: 'node-2', name: 'n2', why: 'it is off\u001b[2J' }];
    await using harness = await createRotating([at(2, 'issue', { awaited })]);
    await runKeysShow(harness.owner);
    const text = textOf(harness.owner);
    expect(text).toMatch(/^rotating to generation 2, requested .* ago by operator:owner: why$/m);
    expect(text).toMatch(/^phase 4 of 6: issuing certificates with the new keys, for/m);
    expect(text).toMatch(/^n2 +it is off\?\[2J$/m);
  });
});

describe('cluster keys rotate', () => {
  test('without --wait, returns when the rotation needs no owner any more', async () => {
    await using harness = await createRotating([at(2, 'asked'), at(2, 'distribute')]);
    await runKeysRotate(harness.owner, {
      reason: 'a backup was read',
      wait: false,
      replace: undefined,
      ...agreed,
    });
    expect([harness.reasons, harness.replaced, harness.asked()]).toEqual([['a backup was read'], [0], 2]);
    expect(harness.owner.host.answered).toEqual({ generation: 2, isDone: false });
  });

  /**
   * Probe results for every credential of a shared key at one endpoint, and for the removed node's own
   * credential.
   */
  const resultsOf = (outcome: (credential: string) => Outcome) =>
    ['node', ...SHARED_KEYS.flatMap(({ credentials }) => credentials)].map((credential) => ({
      ...{ node: 'n1', endpoint: credential.includes('etcd-') ? credential : 'api-server', credential },
      ...{ outcome: outcome(credential), detail: '' },
    }));

  test('ends with the proof that credentials of the old keys are refused', async () => {
    const asked: ProbeTask[] = [];
    await using harness = await createRotating([at(2, 'retire'), at(2, 'done')], undefined, (probe) => {
      asked.push(probe);
      // At first, one endpoint is still starting.
      return resultsOf((credential) =>
        asked.length === 1 && credential === 'front-proxy' ? Outcome.INCONCLUSIVE : Outcome.REFUSED,
      );
    });
    const operator = await asOperator(harness);
    await runKeysRotate(operator, { reason: '', wait: true, replace: undefined, ...agreed });
    expect(asked.map(({ heldKeys, generation }) => [heldKeys, generation])).toEqual([
      [true, 1n],
      [true, 1n],
    ]);
    expect(operator.host.answered).toMatchObject({ generation: 2, isDone: true });
    expect(textOf(operator)).toMatch(/service account key +refused at API server on n1/);
  });

  test('fails while a credential of the old keys is accepted', async () => {
    await using harness = await createRotating([at(2, 'done')], undefined, () =>
      resultsOf((credential) => (credential === 'service-account' ? Outcome.ADMITTED : Outcome.REFUSED)),
    );
    const operator = await asOperator(harness);
    await expect(
      runKeysRotate(operator, { reason: '', wait: true, replace: undefined, ...agreed }),
    ).rejects.toMatchObject({
      code: 'keys-still-accepted',
      message: expect.stringMatching(/credentials of the old service account key: service-account accepted/),
    });
  });

  test('reports the phase of a stalled rotation, and the nodes that the phase waits for', async () => {
    const awaited = [{ nodeId: 'node-2', name: 'n2', why: 'it is off' }];
    await using harness = await createRotating([at(2, 'trust', { awaited })]);
    await expect(
      runKeysRotate(harness.owner, { reason: '', wait: true, replace: undefined, ...agreed }),
    ).rejects.toMatchObject({
      code: 'keys-rotation-stalled',
      retryable: true,
      message: expect.stringMatching(/phase 3 of 6: .*waiting for n2 \(it is off\)$/),
    });
  });

  test('requests to replace a given generation of keys, and reports if it was already replaced', async () => {
    await using harness = await createRotating([at(3, 'done')], async () => ({
      generation: 3n,
      isDone: true,
    }));
    await runKeysRotate(harness.owner, { reason: '', wait: false, replace: 2, ...agreed });
    expect(harness.replaced).toEqual([2]);
    expect(harness.owner.host.answered).toEqual({ generation: 3, isDone: true });
    expect(textOf(harness.owner)).toMatch(/^Nothing to do: .* generation 3/);
  });

  test('repeats the proof for keys that were already replaced', async () => {
    await using harness = await createRotating(
      [at(3, 'done')],
      async () => ({ generation: 3n, isDone: true }),
      () => resultsOf(() => Outcome.REFUSED),
    );
    const operator = await asOperator(harness);
    await runKeysRotate(operator, { reason: '', wait: true, replace: 2, ...agreed });
    expect(operator.host.answered).toMatchObject({ generation: 3, isDone: true });
    expect(textOf(operator)).toMatch(
      /^Nothing to do: the keys have already been replaced .* cluster keys rotate --replace \d+$/m,
    );
  });

  test('refuses --replace of a generation that is not complete', async () => {
    await using harness = await createRotating([at(3, 'issue')], async () => ({ generation: 3n }));
    const request = runKeysRotate(harness.owner, { reason: '', wait: true, replace: 3, ...agreed });
    await expect(request).rejects.toMatchObject({ code: 'app-usage' });
  });

  test('requires an owner', async () => {
    await using harness = await createRotating([at(1, 'done')], () =>
      Promise.reject(new Refusal('curator-denied')),
    );
    const request = runKeysRotate(harness.owner, { reason: '', wait: true, replace: undefined, ...agreed });
    await expect(request).rejects.toMatchObject({ code: 'curator-denied' });
  });
});

const CONTROL = [NodeRole.CONSENSUS_MEMBER, NodeRole.KUBERNETES_CONTROLLER];
const nodeOf = (over: MessageInitShape<typeof NodeSchema>): Node =>
  create(NodeSchema, {
    nodeId: 'node-3',
    name: 'n3',
    state: NodeState.UP,
    health: NodeHealth.TIMEOUT,
    roles: CONTROL,
    ...over,
  });
const stage = (generation: bigint) => ({ generation, phase: 'issue' });
const view = (generation: number, over: Partial<KeysView> = {}): KeysView => ({
  ...{ generation, phase: 'done', isDone: true, startedMs: 0, phaseSinceMs: 0 },
  ...{ startedBy: '', reason: '', awaited: [], needsOwner: false },
  ...over,
});

test.each([
  { name: 'a worker', node: { roles: [NodeRole.KUBERNETES_WORKER] }, now: view(4), want: undefined },
  { name: 'a control plane whose agent reports no generation', node: {}, now: view(1), want: 1 },
  { name: 'a control plane', node: { status: { keys: stage(3n) } }, now: view(3), want: 3 },
  {
    name: 'a demoted node that has not deleted the keys',
    node: { roles: [NodeRole.KUBERNETES_WORKER], status: { keys: stage(2n), holdsKeys: true } },
    now: view(2),
    want: 2,
  },
  { name: 'a node without roles', node: { roles: [] }, now: view(1), want: 1 },
  {
    name: 'a node without roles that reported keys of generation 2',
    node: { roles: [], status: { keys: stage(2n), holdsKeys: true } },
    now: view(2),
    want: 2,
  },
  {
    name: 'a node without roles that reported no keys',
    node: { roles: [], status: { keys: stage(2n) } },
    now: view(2),
    want: undefined,
  },
  {
    name: 'a deleted node that was the reason of the rotation',
    node: { state: NodeState.UNSPECIFIED, roles: [] },
    now: view(3, { reason: 'n3 (node-3) was lost with these keys' }),
    want: 2,
  },
  {
    name: 'a deleted node of unknown roles',
    node: { state: NodeState.UNSPECIFIED, roles: [] },
    now: view(3),
    want: 3,
  },
  {
    name: 'a deleted node that was never a control plane',
    node: { state: NodeState.UNSPECIFIED, roles: [] },
    removal: { sharedKeys: RemovedKeys.NONE, keyGeneration: 0n },
    now: view(3),
    want: undefined,
  },
  {
    name: 'a deleted node whose removal names the generation',
    node: { state: NodeState.UNSPECIFIED, roles: [] },
    removal: { sharedKeys: RemovedKeys.DELETED, keyGeneration: 2n },
    now: view(3),
    want: 2,
  },
  {
    name: 'a node without roles that was a control plane and reports no keys',
    node: { roles: [], wasControlPlane: true, status: { keys: stage(2n) } },
    now: view(2),
    want: 2,
  },
])('heldGeneration() of $name is $want', ({ node, now, removal, want }) => {
  expect(heldGeneration(nodeOf(node), now, removal)).toBe(want);
});

const REMOVED = { state: NodeState.UNSPECIFIED, roles: [] };
const { DELETED, LEFT, UNSPECIFIED } = RemovedKeys;
test.each([
  { name: 'a control plane that leaves in order', node: {}, isLost: false, want: 'deleted' },
  { name: 'a lost control plane', node: {}, isLost: true, want: 'left' },
  {
    name: 'a lost node that has reported no keys',
    node: { roles: [NodeRole.KUBERNETES_WORKER], status: { keys: stage(2n) } },
    isLost: true,
    want: 'deleted',
  },
  {
    name: 'a removed node that deleted them',
    node: REMOVED,
    recorded: DELETED,
    isLost: true,
    want: 'deleted',
  },
  { name: 'a removed node that did not', node: REMOVED, recorded: LEFT, isLost: false, want: 'left' },
  {
    name: 'a removal of an older release',
    node: REMOVED,
    recorded: UNSPECIFIED,
    isLost: false,
    want: 'unknown',
  },
  { name: 'a removal that is not on record', node: REMOVED, isLost: false, want: 'unknown' },
])('keysOnDisk() of $name is $want', ({ node, recorded, isLost, want }) => {
  const removal = recorded === undefined ? undefined : { sharedKeys: recorded, keyGeneration: 2n };
  expect(keysOnDisk(nodeOf(node), removal, { isLost })).toBe(want);
});

describe('key replacement for a removed node', () => {
  const lost = { isLost: true, keep: false, wait: true };

  test('requests a rotation for a lost node, with the node as the reason', async () => {
    await using harness = await createRotating([at(1, 'done')]);
    const fate = await startKeyReplacement(harness.owner, nodeOf({}), lost);
    expect(fate).toEqual({
      outcome: 'under-way',
      onDisk: 'left',
      held: { generation: 1, isReplaced: false },
    });
    expect(harness.reasons).toEqual(['n3 (node-3) was lost with these keys']);
    expect(harness.replaced).toEqual([1]); // the request names the replaced generation, so that a repeated one starts no second rotation
  });

  test.each([
    { name: 'that left in order', node: {}, choice: { ...lost, isLost: false }, want: 'kept' },
    { name: 'whose keys the operator keeps', node: {}, choice: { ...lost, keep: true }, want: 'kept' },
    { name: 'that held no keys', node: { roles: [NodeRole.KUBERNETES_WORKER] }, choice: lost, want: 'none' },
    {
      name: 'that is already deleted',
      node: { state: NodeState.UNSPECIFIED },
      choice: lost,
      want: 'unknown',
    },
  ])('requests no rotation for a node $name', async ({ node, choice, want }) => {
    await using harness = await createRotating([at(1, 'done')]);
    expect(await startKeyReplacement(harness.owner, nodeOf(node), choice)).toMatchObject({ outcome: want });
    expect(harness.reasons).toEqual([]);
  });

  test('reports keys that were rotated since the node held them', async () => {
    await using harness = await createRotating([at(3, 'done')]);
    const node = nodeOf({ status: { keys: stage(2n) } });
    expect(await startKeyReplacement(harness.owner, node, lost)).toEqual({
      ...{ outcome: 'replaced', onDisk: 'left' },
      held: { generation: 2, isReplaced: true },
    });
  });

  test('tells an operator who is not an owner that an owner is needed', async () => {
    await using harness = await createRotating([at(1, 'done')], () =>
      Promise.reject(new Refusal('curator-denied')),
    );
    expect(await startKeyReplacement(harness.owner, nodeOf({}), lost)).toMatchObject({
      outcome: 'owner-needed',
    });
  });

  test('requests another rotation if the node already had the new keys', async () => {
    let asked = 2;
    await using harness = await createRotating([at(2, 'issue'), at(2, 'done'), at(3, 'done')], async () => ({
      generation: BigInt(asked++),
    }));
    const operator = await asOperator(harness);
    const node = nodeOf({ status: { keys: stage(2n) } });
    const fate = await startKeyReplacement(operator, node, lost);
    expect(fate).toMatchObject({ outcome: 'under-way', held: { generation: 2 } });
    expect(await awaitKeyReplacement(operator, node, { requested: fate, wait: true })).toEqual({
      ...{ outcome: 'replaced', onDisk: 'left' },
      held: { generation: 2, isReplaced: true },
    });
    expect(harness.replaced).toEqual([2, 2]);
  });

  test('reports a stalled rotation as under way', async () => {
    await using harness = await createRotating([at(2, 'distribute')]);
    const fate = {
      outcome: 'under-way',
      onDisk: 'left',
      held: { generation: 1, isReplaced: false },
    } as const;
    const node = nodeOf({});
    expect(await awaitKeyReplacement(harness.owner, node, { requested: fate, wait: true })).toEqual(fate);
    const before = harness.asked();
    expect(await awaitKeyReplacement(harness.owner, node, { requested: fate, wait: false })).toEqual(fate);
    expect(harness.asked()).toBe(before + 1); // no owner needs to sign
  });

  test('keeps following the rotation while etcd restarts', async () => {
    await using harness = await createRotating([
      new Refusal('etcd-unavailable'),
      at(2, 'retire'),
      new Refusal('etcd-unavailable'),
      at(2, 'done'),
    ]);
    const fate = {
      outcome: 'under-way',
      onDisk: 'left',
      held: { generation: 1, isReplaced: false },
    } as const;
    const operator = await asOperator(harness);
    expect(await awaitKeyReplacement(operator, nodeOf({}), { requested: fate, wait: true })).toMatchObject({
      outcome: 'replaced',
    });
  });
});
