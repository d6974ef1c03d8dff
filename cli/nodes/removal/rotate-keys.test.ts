import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { describe, expect, test } from '@jest/globals';
import { defineErrors, CodedError } from '../../../internal/errors/index.ts';
import {
  NodeHealth,
  NodeRole,
  NodeSchema,
  NodeState,
  type Node,
} from '../../../joinservice/curatorproto/gen/curator_pb.js';
import type { GetKeysResponseSchema } from '../../../joinservice/curatorproto/gen/operatorapi_pb.js';
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
import { startKeyReplacement, awaitKeyReplacement, heldGeneration } from './replace-keys.ts';

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
  'curator-denied': { fault: 'operator', exit: 'refused', retryable: false, meaning: '-', fix: '-' },
  'etcd-unavailable': { fault: 'system', exit: 'unreachable', retryable: true, meaning: '-', fix: '-' },
});
class Refusal extends CodedError<keyof typeof refusals> {
  constructor(code: keyof typeof refusals) {
    super(refusals, code, 'asking');
  }
}

/** A cluster that is so far each time it is asked, the last for ever. A kubeconfig is none of an identity's business. */
async function createRotating(
  steps: readonly (Answer | Refusal)[],
  rotate?: () => Promise<object>,
  probe?: (probe: ProbeTask) => readonly MessageInitShape<typeof ProbeResultSchema>[],
) {
  const reasons: string[] = [];
  const replaced: number[] = [];
  let asked = 0;
  const desk = await createCuratorHarness(
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
  const owner = { ...desk.owner, ports: { ...desk.owner.ports, clock: new FastForwardClock() } };
  return { ...desk, owner, reasons, replaced, asked: () => asked };
}

/** One with an identity of her own, who has no kubeconfig to be renewed. */
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
  test('tells of keys that were never replaced', async () => {
    await using desk = await createRotating([at(1, 'done')]);
    await runKeysShow(desk.owner);
    expect(textOf(desk.owner)).toBe('Generation 1: as they were made with the cluster.');
    expect(desk.owner.host.answered).toMatchObject({ keys: { generation: 1, isDone: true } });
  });

  test('tells since when keys that were replaced are in force', async () => {
    await using desk = await createRotating([at(2, 'done')]);
    await runKeysShow(desk.owner);
    expect(textOf(desk.owner)).toMatch(
      /^Generation 2, in force for .*, asked for .* ago by operator:owner: why$/,
    );
  });

  test('names the phase, who asked and why, and whom it waits for', async () => {
    const awaited = [{ nodeId: 'node-2', name: 'n2', why: 'it is off\u001b[2J' }];
    await using desk = await createRotating([at(2, 'issue', { awaited })]);
    await runKeysShow(desk.owner);
    const text = textOf(desk.owner);
    expect(text).toMatch(/^Being replaced by generation 2, asked for .* ago by operator:owner: why$/m);
    expect(text).toMatch(/^phase 4 of 6: issuing certificates with the new keys, for/m);
    expect(text).toMatch(/^n2 +it is off\?\[2J$/m);
  });
});

describe('cluster keys rotate', () => {
  test('that is not to be followed only asks', async () => {
    await using desk = await createRotating([at(2, 'asked')]);
    await runKeysRotate(desk.owner, {
      reason: 'a backup was read',
      wait: false,
      replace: undefined,
      ...agreed,
    });
    expect([desk.reasons, desk.replaced, desk.asked()]).toEqual([['a backup was read'], [0], 0]);
    expect(desk.owner.host.answered).toEqual({ generation: 2, isDone: false });
  });

  /** Every paper of a shared key at one door, and the removed node's own. */
  const trialsOf = (outcome: (paper: string) => Outcome) =>
    ['node', ...SHARED_KEYS.flatMap(({ papers }) => papers)].map((credential) => ({
      ...{ node: 'n1', endpoint: credential.startsWith('etcd-') ? credential : 'api-server', credential },
      ...{ outcome: outcome(credential), detail: '' },
    }));

  test('ends with the proof that what the keys of before make is refused', async () => {
    const asked: ProbeTask[] = [];
    await using desk = await createRotating([at(2, 'retire'), at(2, 'done')], undefined, (probe) => {
      asked.push(probe);
      // A door that was on its way up at first.
      return trialsOf((paper) =>
        asked.length === 1 && paper === 'front-proxy' ? Outcome.UNPROVED : Outcome.REFUSED,
      );
    });
    const operator = await asOperator(desk);
    await runKeysRotate(operator, { reason: '', wait: true, replace: undefined, ...agreed });
    expect(asked.map(({ heldKeys, generation }) => [heldKeys, generation])).toEqual([
      [true, 1n],
      [true, 1n],
    ]);
    expect(operator.host.answered).toMatchObject({ generation: 2, isDone: true });
    expect(textOf(operator)).toMatch(/service account key +refused at the API server of n1/);
  });

  test('is no success while anything that they make is let in', async () => {
    await using desk = await createRotating([at(2, 'done')], undefined, () =>
      trialsOf((paper) => (paper === 'service-account' ? Outcome.LET_IN : Outcome.REFUSED)),
    );
    const operator = await asOperator(desk);
    await expect(
      runKeysRotate(operator, { reason: '', wait: true, replace: undefined, ...agreed }),
    ).rejects.toMatchObject({
      code: 'keys-still-accepted',
      message: expect.stringMatching(/what the old service account key makes: service-account is let in/),
    });
  });

  test('that stands still says in which phase and for whom, and that the same command goes on', async () => {
    const awaited = [{ nodeId: 'node-2', name: 'n2', why: 'it is off' }];
    await using desk = await createRotating([at(2, 'believe', { awaited })]);
    await expect(
      runKeysRotate(desk.owner, { reason: '', wait: true, replace: undefined, ...agreed }),
    ).rejects.toMatchObject({
      code: 'keys-rotation-stalled',
      retryable: true,
      message: expect.stringMatching(/phase 3 of 6: .*waiting for n2 \(it is off\)$/),
    });
  });

  test('says which generation is meant, and tells one that is replaced already from one that it has begun', async () => {
    await using desk = await createRotating([at(3, 'done')], async () => ({ generation: 3n, isDone: true }));
    await runKeysRotate(desk.owner, { reason: '', wait: false, replace: 2, ...agreed });
    expect(desk.replaced).toEqual([2]);
    expect(desk.owner.host.answered).toEqual({ generation: 3, isDone: true });
    expect(textOf(desk.owner)).toMatch(/had been replaced before; .* generation 3 .* nothing was begun/);
  });

  test('of keys that were replaced before it brings the proof once more', async () => {
    await using desk = await createRotating(
      [at(3, 'done')],
      async () => ({ generation: 3n, isDone: true }),
      () => trialsOf(() => Outcome.REFUSED),
    );
    const operator = await asOperator(desk);
    await runKeysRotate(operator, { reason: '', wait: true, replace: 2, ...agreed });
    expect(operator.host.answered).toMatchObject({ generation: 3, isDone: true });
    expect(textOf(operator)).toMatch(/^The keys that were meant had been replaced before/m);
  });

  test('cannot mean keys that are only being made', async () => {
    await using desk = await createRotating([at(3, 'issue')], async () => ({ generation: 3n }));
    const asking = runKeysRotate(desk.owner, { reason: '', wait: true, replace: 3, ...agreed });
    await expect(asking).rejects.toMatchObject({ code: 'app-usage' });
  });

  test('is for owners', async () => {
    await using desk = await createRotating([at(1, 'done')], () =>
      Promise.reject(new Refusal('curator-denied')),
    );
    const asking = runKeysRotate(desk.owner, { reason: '', wait: true, replace: undefined, ...agreed });
    await expect(asking).rejects.toMatchObject({ code: 'curator-denied' });
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
  ...{ startedBy: '', reason: '', awaited: [] },
  ...over,
});

test.each([
  { name: 'a worker', node: { roles: [NodeRole.KUBERNETES_WORKER] }, now: view(4), want: undefined },
  { name: 'a control plane too old to say', node: {}, now: view(1), want: 1 },
  { name: 'a control plane', node: { status: { keys: stage(3n) } }, now: view(3), want: 3 },
  {
    name: 'one that is no control plane any more and has not wiped them',
    node: { roles: [NodeRole.KUBERNETES_WORKER], status: { keys: stage(2n), holdsKeys: true } },
    now: view(2),
    want: 2,
  },
  { name: 'one whose roles a removal has taken', node: { roles: [] }, now: view(1), want: 1 },
  {
    name: 'one whose roles a removal has taken and that said that it held some',
    node: { roles: [], status: { keys: stage(2n), holdsKeys: true } },
    now: view(2),
    want: 2,
  },
  {
    name: 'one whose roles a removal has taken and that said that it held none',
    node: { roles: [], status: { keys: stage(2n) } },
    now: view(2),
    want: undefined,
  },
  {
    name: 'one off the records, because of which they were replaced',
    node: { state: NodeState.UNSPECIFIED, roles: [] },
    now: view(3, { reason: 'n3 was lost with them (node-3)' }),
    want: 2,
  },
  {
    name: 'one off the records, of which nothing is known',
    node: { state: NodeState.UNSPECIFIED, roles: [] },
    now: view(3),
    want: 3,
  },
])('heldBy() $name is $want', ({ node, now, want }) => {
  expect(heldGeneration(nodeOf(node), now)).toBe(want);
});

describe('what becomes of the keys of a removed node', () => {
  const lost = { isLost: true, keep: false, wait: true };

  test('of one that was lost they are asked to be replaced, with its name for the audit', async () => {
    await using desk = await createRotating([at(1, 'done')]);
    const fate = await startKeyReplacement(desk.owner, nodeOf({}), lost);
    expect(fate).toEqual({ outcome: 'under-way', held: { generation: 1, isReplaced: false } });
    expect(desk.reasons).toEqual(['n3 was lost with them (node-3)']);
    expect(desk.replaced).toEqual([1]); // repeated, it begins nothing twice
  });

  test.each([
    { name: 'left in order', node: {}, choice: { ...lost, isLost: false }, want: 'kept' },
    { name: 'has a disk that nobody can read', node: {}, choice: { ...lost, keep: true }, want: 'kept' },
    { name: 'held none', node: { roles: [NodeRole.KUBERNETES_WORKER] }, choice: lost, want: 'none' },
    { name: 'is off the records', node: { state: NodeState.UNSPECIFIED }, choice: lost, want: 'unknown' },
  ])('of one that $name nothing is asked', async ({ node, choice, want }) => {
    await using desk = await createRotating([at(1, 'done')]);
    expect(await startKeyReplacement(desk.owner, nodeOf(node), choice)).toMatchObject({ outcome: want });
    expect(desk.reasons).toEqual([]);
  });

  test('replaced since it was last there, they are replaced', async () => {
    await using desk = await createRotating([at(3, 'done')]);
    const node = nodeOf({ status: { keys: stage(2n) } });
    expect(await startKeyReplacement(desk.owner, node, lost)).toEqual({
      outcome: 'replaced',
      held: { generation: 2, isReplaced: true },
    });
  });

  test('an operator who is no owner removes the node, and is told who has to go on', async () => {
    await using desk = await createRotating([at(1, 'done')], () =>
      Promise.reject(new Refusal('curator-denied')),
    );
    expect(await startKeyReplacement(desk.owner, nodeOf({}), lost)).toMatchObject({
      outcome: 'owner-needed',
    });
  });

  test('it had the new ones already: they are replaced once more', async () => {
    let asked = 2;
    await using desk = await createRotating([at(2, 'issue'), at(2, 'done'), at(3, 'done')], async () => ({
      generation: BigInt(asked++),
    }));
    const operator = await asOperator(desk);
    const node = nodeOf({ status: { keys: stage(2n) } });
    const fate = await startKeyReplacement(operator, node, lost);
    expect(fate).toMatchObject({ outcome: 'under-way', held: { generation: 2 } });
    expect(await awaitKeyReplacement(operator, node, { fate, wait: true })).toEqual({
      outcome: 'replaced',
      held: { generation: 2, isReplaced: true },
    });
    expect(desk.replaced).toEqual([2, 2]);
  });

  test('that stands still is told as being under way', async () => {
    await using desk = await createRotating([at(2, 'hand')]);
    const fate = { outcome: 'under-way', held: { generation: 1, isReplaced: false } } as const;
    const node = nodeOf({});
    expect(await awaitKeyReplacement(desk.owner, node, { fate, wait: true })).toEqual(fate);
    const before = desk.asked();
    expect(await awaitKeyReplacement(desk.owner, node, { fate, wait: false })).toEqual(fate);
    expect(desk.asked()).toBe(before);
  });

  test('etcd that is started again on the way is no end', async () => {
    await using desk = await createRotating([
      new Refusal('etcd-unavailable'),
      at(2, 'retire'),
      new Refusal('etcd-unavailable'),
      at(2, 'done'),
    ]);
    const fate = { outcome: 'under-way', held: { generation: 1, isReplaced: false } } as const;
    const operator = await asOperator(desk);
    expect(await awaitKeyReplacement(operator, nodeOf({}), { fate, wait: true })).toMatchObject({
      outcome: 'replaced',
    });
  });
});
