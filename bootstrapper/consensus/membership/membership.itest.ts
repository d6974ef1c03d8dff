import { afterEach, describe, expect, test } from '@jest/globals';
import { stat } from 'node:fs/promises';
import { SystemClock } from '../../../internal/clock/index.ts';
import { Namespace, put, remove, type EtcdClient } from '../../../internal/etcd/index.ts';
import { DiskFiles, type FilePort } from '../../../internal/file/index.ts';
import { CLUSTER_PREFIX, records } from '../../../internal/records/index.ts';
import { closeOpened, createMemoryLogger } from '../../../internal/testing/index.ts';
import { createMembers, shareKeys } from '../fake-member.ts';
import { repairMember } from '../consensus.ts';
import { checkLeave, leaveEtcd } from './leave-etcd.ts';
import { STATE_ETCD } from '../etcd-instances.ts';
import { membersOfRemovedNodes } from './repair-members.ts';
import { withSlot } from './slot.ts';

const signal = new AbortController().signal;
const clock = new SystemClock();
afterEach(closeOpened);

const votersOf = async (etcd: EtcdClient): Promise<readonly string[]> =>
  (await etcd.members.list({ signal }))
    .map(({ name, isLearner }) => `${name}${isLearner ? '?' : ''}`)
    .toSorted();

const write = (etcd: EtcdClient, key: string) =>
  etcd.commit({ when: [], then: [put(key, new Uint8Array([1]))] }, { signal });

describe('startMember() of further members', () => {
  test('two nodes that join at the same time become voting members one after the other, and all members survive a power cut', async () => {
    const [first, second, third] = await createMembers(3);
    const one = await first.start();
    await write(one.admin, '/registry/before');
    await Promise.all([second, third].map((node) => shareKeys(first, node)));
    let isStarting = true;
    const seen = new Set<string>();
    const looking = (async () => {
      while (isStarting) for (const name of await votersOf(one.admin)) seen.add(name);
    })();
    const [two, three] = await Promise.all([second.start(), third.start()]);
    isStarting = false;
    await looking;
    expect(await votersOf(one.admin)).toEqual(['node-1', 'node-2', 'node-3']);
    // A learner has no name before its first start. Each of the two nodes was at some time the only learner.
    expect([...seen]).toEqual(expect.arrayContaining(['node-2?', 'node-3?']));
    expect((await three.admin.get('/registry/before', { signal }))?.key).toBe('/registry/before');
    await write(two.admin, '/registry/after');
    expect([...second.waits, ...third.waits].join()).toMatch(/the slot to change the members .*position 1/);
    // No node holds the membership slot or waits for it. Only the record of how long the last change took is left.
    const slots = await one.admin.list(`${CLUSTER_PREFIX}slots/control-plane/`, { signal });
    expect(slots.entries.map(({ key }) => key)).toEqual([`${CLUSTER_PREFIX}slots/control-plane/pace`]);
    for (const node of [first, second, third]) await node.kill();
    const again = await Promise.all([third, first, second].map((node) => node.start()));
    for (const running of again) await running.admin.get('/registry/after', { signal });
    const moves = second.units.moves.filter((move) => move.startsWith('restart'));
    expect(moves).toEqual([]);
  }, 90_000);

  test('completes a join that was killed between any two writes, without adding a second member', async () => {
    const [first, second] = await createMembers(2);
    const one = await first.start();
    await shareKeys(first, second);
    let kills = 0;
    for (let at = 1; ; at++) {
      const life = new AbortController();
      let writes = 0;
      const dying = new Proxy(new DiskFiles(), {
        get: (target, name: keyof FilePort) => {
          const method = target[name].bind(target) as (...args: unknown[]) => Promise<unknown>;
          if (!['writeAtomic', 'createExclusive'].includes(name)) return method;
          return async (...args: unknown[]) => {
            if (++writes === at) {
              life.abort(new Error('the power went'));
              throw life.signal.reason;
            }
            return method(...args);
          };
        },
      });
      const ended = await second.start({}, dying, life.signal).then(
        (running) => running,
        () => undefined,
      );
      if (ended !== undefined) break;
      kills++;
      await second.kill();
      expect((await one.admin.members.list({ signal })).length).toBeLessThanOrEqual(2);
    }
    expect(kills).toBeGreaterThan(4);
    expect(await votersOf(one.admin)).toEqual(['node-1', 'node-2']);
  }, 120_000);

  test('a joining node removes the learner of a node that died during its join', async () => {
    const [first, second, third] = await createMembers(3);
    const one = await first.start();
    await shareKeys(first, third);
    const etcd = new Namespace(one.admin, CLUSTER_PREFIX);
    const peerUrl = `https://127.0.0.1:${second.config.ports.peer}`;
    await withSlot({ etcd, clock, log: createMemoryLogger().log }, slotFor('node-2'), async (slot) => {
      const { id } = await one.admin.members.addLearner(peerUrl, { signal });
      await slot.writeIntent({ nodeId: 'node-2', peerUrl, memberId: id.toString(16) });
    });
    await third.start();
    expect(await votersOf(one.admin)).toEqual(['node-1', 'node-3']);
  }, 60_000);

  test('a member without data and a removed member can join again', async () => {
    const [first, second] = await createMembers(2);
    const one = await first.start();
    await shareKeys(first, second);
    await second.start();
    await second.kill();
    await second.units.start(STATE_ETCD.unit);
    await second.start();
    const own = (await one.admin.members.list({ signal })).find(({ name }) => name === 'node-2');
    // etcd reports itself unhealthy for five seconds after a member has started.
    for (let refused = true; refused;) {
      refused = await one.admin.members.remove(own?.id ?? 0n, { signal }).then(
        () => false,
        () => true,
      );
      await clock.sleep(200, signal);
    }
    await second.kill();
    await second.start();
    const readded = (await one.admin.members.list({ signal })).find(({ name }) => name === 'node-2');
    expect(readded?.id).not.toBe(own?.id);
    expect(await votersOf(one.admin)).toEqual(['node-1', 'node-2']);
  }, 60_000);
});

describe('repairMember()', () => {
  test('removes the member of a lost node only after the node’s record is deleted', async () => {
    const nodes = await createMembers(3);
    const [first, second, third] = nodes;
    const one = await first.start();
    await shareKeys(first, second);
    const two = await second.start();
    await shareKeys(first, third);
    await third.start();
    const space = new Namespace(one.admin, CLUSTER_PREFIX);
    for (const { config } of nodes) await putNode(space, config.nodeId, 'UP');
    const life = new AbortController();
    const repairs = [first, second].map((node) =>
      repairMember(
        node.portsOf(),
        { ...node.config, recordsPort: node.config.ports.client, peers: () => node.config.peers },
        life.signal,
      ),
    );
    await third.kill();
    // Records of other nodes, or of a node that is only switched off, must not remove a member.
    await putNode(space, 'node-4', 'UP');
    await space.commit({ when: [], then: [remove(recordKey('node-4'))] }, { signal });
    await write(two.admin, '/registry/meanwhile');
    expect(await votersOf(one.admin)).toEqual(['node-1', 'node-2', 'node-3']);
    await putNode(space, 'node-3', 'DECOMMISSIONED');
    await space.commit({ when: [], then: [remove(recordKey('node-3'))] }, { signal });
    while ((await votersOf(one.admin)).length === 3) await clock.sleep(100, signal);
    expect(await votersOf(two.admin)).toEqual(['node-1', 'node-2']);
    life.abort(new Error('the test is over'));
    await Promise.allSettled(repairs);
  }, 90_000);

  test.each([
    { name: 'no record of its node', nodes: [], want: ['a'] },
    {
      name: 'a record of its node in the state DECOMMISSIONED',
      nodes: [{ nodeId: 'a', state: 'DECOMMISSIONED' }],
      want: ['a'],
    },
    { name: 'a record of its node in the state UP', nodes: [{ nodeId: 'a', state: 'UP' }], want: [] },
  ] as const)('membersOfRemovedNodes() returns $want for member a with $name', ({ nodes, want }) => {
    const member = { id: 1n, name: 'a', peerUrls: [], clientUrls: [], isLearner: false };
    const joining = { ...member, id: 2n, name: '' };
    expect(membersOfRemovedNodes([member, joining], nodes).map(({ name }) => name)).toEqual(want);
  });
});

const recordKey = (nodeId: string): string => records.node.key(nodeId);

async function putNode(etcd: Namespace, nodeId: string, state: 'UP' | 'DECOMMISSIONED'): Promise<void> {
  const facts = { nodeId, name: nodeId, pubKey: 'AA==', state, labels: {}, createdMs: 1 };
  const value = records.node.encode({ version: 1, roles: ['ConsensusMember'], ...facts });
  await etcd.commit({ when: [], then: [put(recordKey(nodeId), value)] }, { signal });
}

describe('leaveEtcd()', () => {
  test('leaves etcd, then deletes data and keys; the node can join again', async () => {
    const [first, second] = await createMembers(2);
    const one = await first.start();
    await shareKeys(first, second);
    for (let times = 0; times < 3; times++) {
      await second.start();
      expect(await votersOf(one.admin)).toEqual(['node-1', 'node-2']);
      const leaving = { ...second.config, createsCluster: false };
      await checkLeave(second.portsOf(), leaving, signal);
      expect(await leaveEtcd(second.portsOf(), leaving, signal)).toBe(true);
      expect(await votersOf(one.admin)).toEqual(['node-1']);
      const { root, etcdHome } = second.config.layout;
      await expect(stat(root)).rejects.toThrow('ENOENT');
      await expect(stat(etcdHome)).rejects.toThrow('ENOENT');
      expect((await second.units.status(STATE_ETCD.unit)).active).toBe('inactive');
      expect(await leaveEtcd(second.portsOf(), leaving, signal)).toBe(false);
      await shareKeys(first, second);
    }
  }, 90_000);

  test('refuses to remove the last member or to lose the quorum, and changes nothing', async () => {
    const [first, second, third] = await createMembers(3);
    const one = await first.start();
    const alone = { ...first.config, createsCluster: false, peers: [] };
    await expect(checkLeave(first.portsOf(), alone, signal)).rejects.toEqual(
      expect.objectContaining({ code: 'consensus-last-member' }),
    );
    await shareKeys(first, second);
    await second.start();
    await shareKeys(first, third);
    await third.start();
    await third.kill();
    const leaving = { ...second.config, createsCluster: false };
    for (const leave of [checkLeave, leaveEtcd])
      await expect(leave(second.portsOf(), leaving, signal)).rejects.toEqual(
        expect.objectContaining({ code: 'consensus-quorum', details: { answering: 1, needed: 2 } }),
      );
    expect((await second.units.status(STATE_ETCD.unit)).active).toBe('active');
    await write(one.admin, '/registry/still');
  }, 60_000);
});

function slotFor(nodeId: string) {
  return { nodeId, onPosition: () => undefined, signal };
}
