import { describe, expect, test } from '@jest/globals';
import { realHeader } from '../../../internal/luks/fake-header.ts';
import { Secret } from '../../../internal/secret/index.ts';
import {
  encodeReady,
  isSameSource,
  parseRecord,
  SLOT_BYTES,
  type KnownSource,
  type ShareSource,
} from '../../../internal/statedisk/index.ts';
import { FakeClock, settle, superviseForTest } from '../../../internal/testing/index.ts';
import { DiskError, DiskQueue, type ShareKeeper, type ShareMove } from '../../disk/index.ts';
import {
  diskShareWorker,
  isSettled,
  keepOwnShare,
  planDiskShare,
  type DiskShare,
} from './disk-share-worker.ts';
import { directoryFromWire } from '../../roleserve/index.ts';
import { all, components, membership, none, workerOnly } from '../../roleserve/fake-node.ts';
import { createFakeRoleValues } from '../../roleserve/fake-role-values.ts';

const awaited = new DiskError('disk-share-awaited', 'asking', {
  cause: new Error('rpc-not-served'),
});
const refused = new DiskError('disk-share-refused', 'asking', {
  cause: new Error('join-share-not-member'),
  details: { code: 'join-share-not-member', isLasting: true },
});
const overloaded = new DiskError('disk-share-refused', 'asking', {
  cause: new Error('join-share-too-often'),
  details: { code: 'join-share-too-often', isLasting: false },
});
const noSecret = new DiskError('disk-share-awaited', 'asking', { cause: new Error('no secret') });
const directory = [{ nodeId: 'node-1', host: '198.18.0.11', curator: true, apiServer: true }] as const;
const floors = { keys: { serial: 3 } };
const source: KnownSource = {
  clusterId: membership.clusterId,
  clusterCaPem: membership.clusterCaPem,
  caGeneration: 1,
  floors,
  controlPlanes: [{ nodeId: 'node-1', host: '198.18.0.11' }],
  endpoints: ['c9.example.org:9090'],
};
const given: ShareKeeper = { kind: 'signer', source: { ...source, proven: [] } };
const { signal } = new AbortController();
const said: string[] = [];
const say = (text: string): void => void said.push(text);

/** A disk whose share is with its machine at first. `failures`: how often no signer takes the share. */
class FakeShare implements DiskShare {
  readonly queue = new DiskQueue();
  readonly moves: string[] = [];
  calls = 0;
  keeper: ShareKeeper = { kind: 'machine' };
  failure: Error | undefined;
  /** Whether an agent was killed after it had written the record with the share that it took back. */
  isInterrupted = false;
  /** Resolves before the signer answers. */
  answer: Promise<void> = Promise.resolve();

  readKeeper(): Promise<ShareKeeper> {
    return Promise.resolve(this.keeper);
  }

  async give(to: KnownSource): Promise<ShareMove> {
    await this.answer;
    if (this.failure !== undefined) throw this.failure;
    this.calls++;
    if (this.keeper.kind === 'signer' && isSameSource(this.keeper.source, to)) return 'unchanged';
    const move = this.keeper.kind === 'machine' ? 'given' : 'updated';
    this.moves.push(move);
    this.keeper = { kind: 'signer', source: { ...to, proven: [] } };
    return move;
  }

  /** The control planes that were probed. */
  readonly probed: string[] = [];
  /** Control planes that give no share, by id. */
  silent: readonly string[] = [];
  silence: Error = noSecret;

  probe(of: Parameters<DiskShare['probe']>[0]): Promise<void> {
    if (this.keeper.kind === 'machine') return Promise.resolve();
    this.probed.push(of === 'any' ? of : of.nodeId);
    const { controlPlanes } = this.keeper.source;
    const asked = of === 'any' ? controlPlanes.map(({ nodeId }) => nodeId) : [of.nodeId];
    return asked.every((each) => this.silent.includes(each))
      ? Promise.reject(this.silence)
      : Promise.resolve();
  }

  takeBack(): Promise<ShareMove> {
    if (this.failure !== undefined) return Promise.reject(this.failure);
    if (this.keeper.kind === 'machine')
      return Promise.resolve(this.isInterrupted ? 'completed' : 'unchanged');
    this.moves.push('taken');
    this.keeper = { kind: 'machine' };
    return Promise.resolve('taken');
  }
}

function createWorker() {
  const values = createFakeRoleValues();
  const share = new FakeShare();
  const clock = new FakeClock();
  const state = { holdsKeys: false, generation: 1, random: 0.5 };
  const ended: unknown[] = [];
  const end = (reason: unknown): void => void ended.push(reason);
  const worker = diskShareWorker({
    ...{ reads: values, clock, random: () => state.random, diskShare: share },
    holdsKeys: () => Promise.resolve(state.holdsKeys),
    readKnownCa: () => Promise.resolve({ generation: state.generation, floors }),
    operatorEndpoints: { list: ['c9.example.org:9090'] },
    end,
  });
  const enter = async (roles = workerOnly): Promise<void> => {
    values.clusterMembership.set(membership);
    values.localRoles.set(roles);
    values.clusterDirectory.set(directory);
    await settle();
  };
  return { values, share, clock, state, worker, enter, ended, end };
}

describe('planDiskShare()', () => {
  const known = {
    clusterMembership: membership,
    localRoles: workerOnly,
    clusterDirectory: directory,
    clusterRelays: [membership.nodeAddress, '198.18.0.21'],
  };
  test.each([
    { name: 'no membership', given: { ...known, clusterMembership: undefined } },
    { name: 'no roles', given: { ...known, localRoles: undefined } },
    { name: 'the role of a control plane', given: { ...known, localRoles: all } },
    {
      name: 'no control plane',
      given: {
        ...known,
        clusterMembership: { ...membership, directory: [] },
        clusterDirectory: undefined,
      },
    },
  ])('gives nothing away with $name', ({ given }) => {
    expect(planDiskShare(given, [])).toHaveProperty('why');
  });

  test('names the control planes of the directory, or of the membership before there is one', () => {
    const { caGeneration: _, floors: __, ...rest } = source;
    const wanted = { ...rest, endpoints: ['c9.example.org:9090', '198.18.0.21:9094'] };
    const operators = ['c9.example.org:9090'];
    expect(planDiskShare(known, operators)).toEqual({ source: wanted });
    const before = planDiskShare({ ...known, clusterDirectory: undefined }, operators);
    expect(before).toEqual({ source: { ...wanted, controlPlanes: [...membership.directory] } });
  });
});

/** Writes a source into a record and reads it. */
function throughRecord(clusterShare: ShareSource): unknown {
  const content = {
    ...{ uuid: '0f7a1c2e-5b8d-4c3a-9e6f-1a2b3c4d5e6f', nodeShare: new Uint8Array(9), clusterShare },
    recovery: { kind: 'key', sealed: new Uint8Array(9) },
    ...{ consoleRecovery: undefined, recipientsMac: undefined, approval: undefined },
    ...{ registers: new Map<number, Uint8Array>(), header: realHeader() },
  } as const;
  const slot = new Uint8Array(SLOT_BYTES);
  slot.set(encodeReady(1n, content, new Secret(new Uint8Array(32))));
  const found = parseRecord(slot);
  return found.kind === 'ready' ? found.content.clusterShare : found.kind;
}

describe('every list of control planes that a node takes from a curator', () => {
  const wire = (nodeId: string, address: string) =>
    ({ nodeId, address, curatorEndpoint: '', apiServer: true }) as never;
  const good = wire('node-1', '198.18.0.11');
  test.each([
    ['a name', [wire('node-2', 'c2.example.org'), good], ['198.18.0.11']],
    ['capitals in the id', [good, wire('Node-2', '198.18.0.12')], ['198.18.0.11']],
    ['an address of IPv6', [wire('node-2', '2001:db8::2')], ['2001:db8::2']],
    ['a long name', [wire('node-2', 'c'.repeat(253)), good], ['198.18.0.11']],
    ['64 control planes', Array<never>(64).fill(good), Array<string>(16).fill('198.18.0.11')],
    ['names alone', [wire('node-2', 'c2.example.org')], undefined],
  ] as const)('fits into the record of the disk, or is not given to it: %s', (_, listed, hosts) => {
    const clusterDirectory = directoryFromWire(listed);
    expect(clusterDirectory).toBeDefined();
    const clusterMembership = { ...membership, clusterId: 'c0'.repeat(16), clusterCaPem: 'CA' };
    const plan = planDiskShare(
      { clusterMembership, localRoles: workerOnly, clusterDirectory, clusterRelays: undefined },
      [],
    );
    const record =
      'why' in plan ? undefined : throughRecord({ ...plan.source, caGeneration: 1, floors, proven: [] });
    const controlPlanes = hosts?.map((host) => expect.objectContaining({ host }));
    expect(record).toEqual(
      controlPlanes === undefined ? undefined : expect.objectContaining({ controlPlanes }),
    );
  });
});

describe('the disk-share worker', () => {
  test('gives the share of a worker away, and has the agent start again once the node has started', async () => {
    const { share, worker, enter, values, clock, ended } = createWorker();
    await using tree = superviseForTest(worker, { clock });
    await enter();
    expect([share.moves, share.keeper]).toEqual([['given'], given]);
    values.localComponents.set({ ...components, images: 'imported' });
    await settle();
    expect([tree.at('root').note, ended]).toEqual([
      'the start of this node, before the agent starts again without keys of the state disk',
      [],
    ]);
    const approving = Promise.withResolvers<void>();
    const approval = share.queue.run(() => approving.promise);
    values.kubernetesStatus.set({ version: 'v1.36.0', controlPlane: false });
    await settle();
    expect(ended).toEqual([]);
    approving.resolve();
    await approval;
    await settle();
    expect(ended).toMatchObject([{ code: 'disk-share-moved' }]);
    await clock.advance(7_200_000);
    expect([share.moves, ended.length]).toEqual([['given'], 1]);
  });

  test('has the agent start again after a quarter of an hour though the node has not started, and after an interrupted move', async () => {
    const { share, worker, enter, clock, ended } = createWorker();
    share.give = () => Promise.resolve('completed');
    await using _tree = superviseForTest(worker, { clock });
    await enter();
    await clock.advance(890_000);
    expect(ended).toEqual([]);
    await clock.advance(20_000);
    expect(ended).toHaveLength(1);
  });

  test('notes other control planes and another CA, without another start of the agent', async () => {
    const { share, worker, enter, values, state, clock, ended } = createWorker();
    share.keeper = given;
    await using tree = superviseForTest(worker, { clock });
    await enter();
    await clock.advance(7_200_000);
    expect(share.moves).toEqual([]);
    values.clusterDirectory.set([
      ...directory,
      { nodeId: 'node-2', host: '198.18.0.12', curator: true, apiServer: true },
    ]);
    await settle();
    expect(share.moves).toEqual(['updated']);
    state.generation = 2;
    values.clusterMembership.set({ ...membership, clusterCaPem: 'next' });
    await clock.advance(3_600_000);
    expect(share.keeper).toMatchObject({ source: { clusterCaPem: 'next', caGeneration: 2 } });
    expect([tree.at('root').note, ended]).toEqual(['changes of the control planes', []]);
  });

  test.each([
    {
      name: 'an hour, if a curator sends endpoints that answer',
      ...{ failure: undefined, hours: 1, error: '' },
    },
    {
      name: 'an hour, if a curator sends endpoints that do not answer',
      ...{ failure: awaited, hours: 1, error: '; last error: disk-share-awaited: asking: rpc-not-served' },
    },
    {
      name: 'an hour, if a curator sends endpoints that have too many requests',
      ...{
        failure: overloaded,
        hours: 1,
        error: '; last error: disk-share-refused: asking: join-share-too-often',
      },
    },
    {
      name: 'a day, if a curator sends endpoints that refuse',
      ...{
        failure: refused,
        hours: 24,
        error: '; last error: disk-share-refused: asking: join-share-not-member',
      },
    },
  ])('tries to change the record once $name again and again', async ({ failure, hours, error }) => {
    const { share, worker, enter, values, clock } = createWorker();
    share.keeper = given;
    await using tree = superviseForTest(worker, { clock });
    await enter();
    await clock.advance(7_200_000);
    let asked = 0;
    share.give = (to) => {
      asked++;
      if (failure === undefined) share.keeper = { kind: 'signer', source: { ...to, proven: [] } };
      return failure === undefined ? Promise.resolve('updated') : Promise.reject(failure);
    };
    for (let minute = 0; minute < 119; minute++) {
      values.clusterDirectory.set([{ ...directory[0], host: `198.18.1.${minute}` }]);
      await clock.advance(hours * 60_000);
    }
    expect(asked).toBe(2);
    const next = `the next ${hours === 1 ? 'hour' : 'day'}, to note where to ask for the share of the disk`;
    expect(tree.at('root').note).toBe(`${next}${error}`);
  });

  test('looks at the disk once after its start, which completes a move that was interrupted', async () => {
    const { share, worker, enter, clock } = createWorker();
    share.keeper = given;
    await using _tree = superviseForTest(worker, { clock });
    await enter();
    await clock.advance(7_200_000);
    expect([share.calls, share.moves]).toEqual([1, []]);
  });

  test('keeps the share while no signer takes it, says so once, and gives it as soon as one does', async () => {
    const { share, worker, enter, clock } = createWorker();
    share.failure = awaited;
    await using tree = superviseForTest(worker, { clock });
    await enter();
    await clock.advance(3_600_000);
    expect(tree.at('root').note).toContain('disk-share-awaited: asking: rpc-not-served');
    const warnings = tree.records.filter(({ level }) => level === 'warn');
    expect(warnings.map(({ message, fields }) => [message, fields['keeper']])).toEqual([
      ['cluster share of the state disk not given to the signers', 'machine'],
    ]);
    share.failure = undefined;
    await clock.advance(1_800_000);
    expect(share.moves).toEqual(['given']);
  });

  test.each([
    { name: 'once a day while its request is refused', failure: refused, atMost: 20, atLeast: 15 },
    { name: 'each half hour while no signer answers', failure: awaited, atMost: 500, atLeast: 300 },
  ])('asks $name', async ({ failure, atMost, atLeast }) => {
    const { share, worker, enter, clock } = createWorker();
    share.failure = failure;
    let asked = 0;
    const give = share.give.bind(share);
    share.give = (to) => (asked++, give(to));
    await using _tree = superviseForTest(worker, { clock });
    await enter();
    for (let hour = 0; hour < 7 * 24; hour++) await clock.advance(3_600_000);
    expect([asked >= atLeast, asked <= atMost]).toEqual([true, true]);
    share.failure = undefined;
    await clock.advance(86_400_000);
    expect(share.moves).toEqual(['given']);
  });

  test('gives nothing away on a control plane, and on a former one only after its keys are gone', async () => {
    const { share, worker, enter, state, clock, values } = createWorker();
    state.holdsKeys = true;
    await using _tree = superviseForTest(worker, { clock });
    await enter(all);
    values.localRoles.set(workerOnly);
    await settle();
    expect(share.moves).toEqual([]);
    state.holdsKeys = false;
    await clock.advance(1_800_000);
    expect(share.moves).toEqual(['given']);
  });

  test('gives nothing away on a node that becomes a control plane meanwhile', async () => {
    const { share, worker, enter, values, clock, end } = createWorker();
    await using _tree = superviseForTest(worker, { clock });
    const approving = Promise.withResolvers<void>();
    const other = share.queue.run(() => approving.promise);
    await enter();
    values.localRoles.set(all);
    const own = keepOwnShare({ diskShare: share, end }, say, signal);
    approving.resolve();
    await Promise.all([other, own]);
    await settle();
    expect([share.moves, share.keeper.kind]).toEqual([[], 'machine']);
  });

  test('ends on a machine without a state disk, and restarts after another error of the disk', async () => {
    const none = diskShareWorker({
      ...{ reads: createFakeRoleValues(), clock: new FakeClock(), random: () => 0.5, diskShare: undefined },
      holdsKeys: () => Promise.resolve(false),
      readKnownCa: () => Promise.resolve({ generation: 1, floors }),
      operatorEndpoints: { list: [] },
      end: () => undefined,
    });
    await using idle = superviseForTest(none);
    await settle();
    expect(idle.at('root').state).toBe('done');
    const { share, worker, enter, clock } = createWorker();
    share.failure = new Error('the TPM does not answer');
    await using tree = superviseForTest(worker, { clock });
    await enter();
    share.failure = undefined;
    await clock.advance(5_000);
    expect(share.moves).toEqual(['given']);
    expect(tree.records.some(({ level }) => level === 'error' || level === 'warn')).toBe(true);
  });
});

describe('a share that was given away', () => {
  const HOUR = 3_600_000;
  const two = [
    ...directory,
    { nodeId: 'node-2', host: '198.18.0.12', curator: true, apiServer: true },
  ] as const;

  async function createGiven(silent: readonly string[]) {
    const made = createWorker();
    const { clock, values, share, worker } = made;
    const controlPlanes = two.map(({ nodeId, host }) => ({ nodeId, host }));
    share.keeper = { kind: 'signer', source: { ...source, controlPlanes, proven: [] } };
    const tree = superviseForTest(worker, { clock });
    values.clusterMembership.set(membership);
    values.localRoles.set(workerOnly);
    values.clusterDirectory.set(two);
    await settle();
    for (let hours = 0; hours < 2; hours++) await clock.advance(HOUR);
    share.silent = silent;
    share.probed.length = 0;
    return { ...made, tree, note: () => tree.at('root').note };
  }

  test('is asked for once a day at one of the control planes, without any change of the disk', async () => {
    const { share, clock, state, tree, note } = await createGiven([]);
    await using _tree = tree;
    for (const random of [0, 0.99]) {
      state.random = random;
      for (let hours = 0; hours < 48; hours++) await clock.advance(HOUR);
    }
    expect(new Set(share.probed)).toEqual(new Set(['node-1', 'node-2']));
    expect([share.probed.length >= 3, share.probed.length <= 8]).toEqual([true, true]);
    expect([note(), share.moves]).toEqual(['changes of the control planes', []]);
  });

  test.each([
    {
      name: 'one control plane',
      silent: ['node-2'],
      text: 'control plane node-2 gives no share of the state disk, another one does: ',
    },
    {
      name: 'any',
      silent: ['node-1', 'node-2'],
      text: 'no control plane gives the share of the state disk: ',
    },
  ])('says in log and status that it cannot be had from $name, until it can', async ({ silent, text }) => {
    const { share, clock, tree, note } = await createGiven(silent);
    await using _tree = tree;
    for (let hours = 0; hours < 48; hours++) await clock.advance(HOUR);
    expect(note()).toBe(`${text}asking: no secret`);
    const warnings = tree.records.filter(({ level }) => level === 'warn');
    expect(warnings.map(({ message }) => message)).toEqual(['share of the state disk cannot be had']);
    share.silent = [];
    for (let hours = 0; hours < 3; hours++) await clock.advance(HOUR);
    expect(note()).toBe('changes of the control planes');
  });

  test('is asked for once a day after a refusal, because each one is in the audit log', async () => {
    const { share, clock, tree, note } = await createGiven(['node-1', 'node-2']);
    await using _tree = tree;
    share.silence = refused;
    for (let hours = 0; hours < 72; hours++) await clock.advance(HOUR);
    expect(note()).toContain('join-share-not-member');
    // One control plane, then all of them.
    expect([share.probed.length >= 4, share.probed.length <= 6]).toEqual([true, true]);
  });

  test('is not asked for on a node that has become a control plane', async () => {
    const { share, clock, tree, values } = await createGiven([]);
    await using _tree = tree;
    values.localRoles.set(all);
    for (let hours = 0; hours < 48; hours++) await clock.advance(HOUR);
    expect(share.probed).toEqual([]);
  });
});

describe('isSettled()', () => {
  const status = { version: 'v1.36.0', controlPlane: false };
  const state = {
    ...{ localRoles: workerOnly, kubernetesStatus: status },
    localComponents: { ...components, images: 'imported' as const },
  };
  test.each([
    { name: 'a worker with all images and a kubelet', given: state, want: true },
    { name: 'a node that runs no Kubernetes', given: { ...state, localRoles: none }, want: true },
    {
      name: 'a worker that imports images',
      given: { ...state, localComponents: { ...components, images: 'essential' as const } },
      want: false,
    },
    { name: 'a worker without a kubelet', given: { ...state, kubernetesStatus: undefined }, want: false },
    {
      name: 'a former control plane that still removes one',
      given: { ...state, kubernetesStatus: { ...status, controlPlane: true } },
      want: false,
    },
  ])('$name: $want', ({ given: now, want }) => {
    expect(isSettled(now)).toBe(want);
  });
});

describe('keepOwnShare()', () => {
  test('takes a share back after a move in progress, and has the agent start again at once', async () => {
    const { share, worker, enter, values, clock, ended, end } = createWorker();
    const answer = Promise.withResolvers<void>();
    share.answer = answer.promise;
    await using _tree = superviseForTest(worker, { clock });
    await enter();
    values.localRoles.set(all);
    const own = keepOwnShare({ diskShare: share, end }, say, signal);
    answer.resolve();
    await expect(own).rejects.toMatchObject({ code: 'disk-share-moved' });
    expect(ended).toMatchObject([{ code: 'disk-share-moved' }]);
    expect(said.splice(0)).toEqual([
      'asking a signer for the cluster share of the state disk, which ends approvals of other software',
    ]);
    expect([share.moves, share.keeper.kind]).toEqual([['given', 'taken'], 'machine']);
  });

  test('does nothing to a machine that keeps its share, or has no state disk', async () => {
    const { share, ended, end } = createWorker();
    await keepOwnShare({ diskShare: share, end }, say, signal);
    await keepOwnShare({ diskShare: undefined, end }, say, signal);
    expect([share.moves, said, ended]).toEqual([[], [], []]);
  });

  test('completes a move that was interrupted, and has the agent start again', async () => {
    const { share, ended, end } = createWorker();
    share.isInterrupted = true;
    await expect(keepOwnShare({ diskShare: share, end }, say, signal)).rejects.toMatchObject({
      code: 'disk-share-moved',
    });
    expect([said, ended]).toEqual([[], [expect.objectContaining({ code: 'disk-share-moved' })]]);
  });

  test('fails if no signer gives the present share', async () => {
    const { share, ended, end } = createWorker();
    share.keeper = given;
    share.failure = awaited;
    await expect(keepOwnShare({ diskShare: share, end }, say, signal)).rejects.toBe(awaited);
    expect(ended).toEqual([]);
  });
});
