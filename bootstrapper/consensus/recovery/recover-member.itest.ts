import { afterEach, expect, test } from '@jest/globals';
import { cp, mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { SystemClock } from '../../../internal/clock/index.ts';
import { Namespace, put, type EtcdClient, type WatchEvent } from '../../../internal/etcd/index.ts';
import { ExecaRunner, type CommandRunner } from '../../../internal/exec/index.ts';
import type { DiskFiles } from '../../../internal/file/index.ts';
import { CLUSTER_KEY, CLUSTER_PREFIX, records } from '../../../internal/records/index.ts';
import { closeOpened, findEtcdBinary, opened, temporaryDirectory } from '../../../internal/testing/index.ts';
import { findFreePorts, noCommands, TestMember, testMemberConfig } from '../fake-member.ts';
import type { ConsensusConfig, ConsensusPorts } from '../consensus-config.ts';
import { repairMember } from '../consensus.ts';
import { STATE_ETCD } from '../etcd-instances.ts';
import { requireOwnRecord } from '../membership/require-own-record.ts';
import type { NewestEpoch } from './epoch.ts';
import type { RecoverConfig } from './data-copy.ts';
import { judgeRecovery, recoverMember, surveyMembers, surveyWithDataCopy } from './recover-member.ts';

const signal = new AbortController().signal;
const clock = new SystemClock();
const BUMP = 1_000_000_000n;
afterEach(closeOpened);

const programs = new ExecaRunner({ path: '/usr/bin:/bin' });
// Only systemd and root can create system users, so this test skips those commands and runs only the programs
// of etcd.
const commands: CommandRunner = {
  run: (command) => (/^(systemd-sysusers|chown)$/.test(command.argv[0]) ? noCommands : programs).run(command),
};

/** One control plane with a separate disk and etcd, on the loopback. */
class TestControlPlane extends TestMember {
  readonly recovering: RecoverConfig;
  #hasDied = false;

  constructor(
    config: ConsensusConfig,
    more: Pick<RecoverConfig, 'etcdctlBinary' | 'etcdutlBinary' | 'temporaryPorts'>,
  ) {
    super(config, commands);
    this.recovering = { ...config, ...more };
  }

  get ports(): ConsensusPorts {
    return this.portsOf();
  }

  /**
   * A disk that fails at the first critical change of this kind: the replacement of the data, or the write of
   * the new epoch.
   */
  dyingAt(step: 'rename' | 'writeAtomic') {
    const { ports } = this;
    const { epochFile } = this.recovering.layout;
    const files = Object.assign(Object.create(ports.files) as DiskFiles, {
      [step]: async (path: string, ...rest: [string]) => {
        if (step === 'writeAtomic' && path !== epochFile) return ports.files.writeAtomic(path, ...rest);
        // The recovery renames two directories. The disk completes the first rename and fails at the second
        // one.
        if (step === 'rename' && !this.#hasDied) await ports.files.rename(path, ...rest);
        this.#hasDied = true;
        await this.units.kill(STATE_ETCD.unit);
        throw new Error('power cut');
      },
    });
    return { ...ports, files };
  }

  repair(): Promise<unknown> {
    const { config } = this;
    return repairMember(
      this.ports,
      { ...config, recordsPort: config.ports.client, peers: () => config.peers },
      signal,
    ).catch((error: unknown) => error);
  }
}

async function createThree(): Promise<readonly [TestControlPlane, TestControlPlane, TestControlPlane]> {
  const { path: directory } = opened(await temporaryDirectory());
  const clientPorts = await findFreePorts(3);
  const binaries = {
    etcdctlBinary: await findEtcdBinary(directory, 'etcdctl'),
    etcdutlBinary: await findEtcdBinary(directory, 'etcdutl'),
  };
  const etcdBinary = await findEtcdBinary(directory);
  const create = async (index: number): Promise<TestControlPlane> => {
    const stateDir = join(directory, `node-${index + 1}`);
    await mkdir(stateDir);
    const [client = 0, peer = 0, metrics = 0] = await findFreePorts(3);
    const node = new TestControlPlane(
      { ...(await testMemberConfig(stateDir, index, clientPorts)), etcdBinary },
      { ...binaries, temporaryPorts: { client, peer, metrics } },
    );
    if (index > 0)
      await cp(join(directory, 'node-1', 'consensus'), join(stateDir, 'consensus'), {
        recursive: true,
        filter: (path) => !/\/(users|formed|epoch)/.test(path),
      });
    return node;
  };
  const first = await create(0);
  const one = await first.start();
  await createRecords(one.admin);
  const second = await create(1);
  await second.start();
  const third = await create(2);
  await third.start();
  return [first, second, third];
}

async function createRecords(admin: EtcdClient): Promise<void> {
  const value = records.cluster.encode({
    ...{ version: 1, clusterId: 'c0ffee', clusterName: 'test', epoch: 1 },
    ...{ caPem: 'CA', createdMs: 1, firstNodeId: 'node-1' },
  });
  await new Namespace(admin, CLUSTER_PREFIX).commit(
    { when: [], then: [put(CLUSTER_KEY, value)] },
    { signal },
  );
  await recordNode(admin, 'node-1');
}

async function recordNode(admin: EtcdClient, nodeId: string): Promise<void> {
  const node = records.node.put(records.node.key(nodeId), {
    ...{ version: 1, nodeId, name: nodeId.replace('node-', 'n'), pubKey: 'a2V5', state: 'UP', createdMs: 1 },
    ...{ roles: ['ConsensusMember'], labels: {} },
  });
  await new Namespace(admin, CLUSTER_PREFIX).commit({ when: [], then: [node] }, { signal });
}

const write = (etcd: EtcdClient, key: string) =>
  etcd.commit({ when: [], then: [put(`/registry/${key}`, new Uint8Array([1]))] }, { signal });
const keysOf = async (etcd: EtcdClient): Promise<readonly string[]> =>
  (await etcd.list('/registry/', { signal })).entries.map(({ key }) => key.replace('/registry/', ''));
const votersOf = async (etcd: EtcdClient): Promise<readonly string[]> =>
  (await etcd.members.list({ signal }))
    .filter(({ isLearner }) => !isLearner)
    .map(({ name }) => name)
    .toSorted();

/** Follows a watch from now on, even if its member fails. */
function follow(etcd: EtcdClient, afterRevision: bigint) {
  const life = new AbortController();
  const seen: WatchEvent[] = [];
  const ended = (async () => {
    for await (const event of etcd.watch('/registry/', { signal: life.signal, afterRevision }))
      seen.push(event);
  })().catch(() => undefined);
  opened({
    [Symbol.asyncDispose]: async () => {
      life.abort(new Error('the test is over'));
      await ended;
    },
  });
  return seen;
}

async function until(what: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await what())) await clock.sleep(100, signal);
}

test('recoverMember() continues with one lagging member in a new epoch, and the members of the old majority join it again', async () => {
  const [first, second, third] = await createThree();
  const running = await first.start();
  // Write twice: a member's log shows an entry as committed only with the next entry, and the data copy
  // contains only committed entries.
  await write(running.admin, 'before');
  await write(running.admin, 'before');
  const { revision } = await running.admin.list('/registry/', { signal });
  const watched = follow(running.admin, revision);
  await until(async () => (await keysOf(running.admin)).includes('before'));

  // While etcd has a leader, there is nothing to recover.
  const whole = await surveyMembers(first.ports, first.recovering, signal);
  expect(judgeRecovery(whole).refusals.join()).toMatch(/has a leader/);
  expect(whole.members).toMatchObject([{ name: 'n1' }]);

  // The other two members commit data that the survivor misses. Then both are lost.
  await first.kill();
  const two = await second.start();
  await write(two.admin, 'lost');
  const lostAt = (await two.admin.maintenance.status({ signal })).raftIndex;
  await Promise.all([second.kill(), third.kill()]);

  const survey = await surveyMembers(first.ports, first.recovering, signal);
  const { refusals, losses } = judgeRecovery(survey);
  expect(refusals).toEqual([]);
  // The survivor answers only if it was restarted. In either case it has fewer log entries than the lost
  // members.
  expect(survey.own.raftIndex ?? 0n).toBeLessThan(lostAt);
  expect(losses).toHaveLength(3);
  const examined = await surveyWithDataCopy(first.ports, first.recovering, signal);
  expect(judgeRecovery(examined).refusals).toEqual([]);
  expect(examined.own.raftIndex).toBeDefined();
  expect(examined.members).toMatchObject([{ name: 'n1' }]);

  // Simulate power cuts at each change of the disk after the restored data is complete; a repeated call
  // completes the recovery.
  for (const step of ['rename', 'rename', 'writeAtomic'] as const)
    await expect(recoverMember(first.dyingAt(step), first.recovering, signal)).rejects.toThrow('power cut');
  expect(await recoverMember(first.ports, first.recovering, signal)).toBeGreaterThanOrEqual(2);
  const alone = await first.start();
  expect(await votersOf(alone.admin)).toEqual(['node-1']);
  expect(await keysOf(alone.admin)).toEqual(['before']);
  await write(alone.admin, 'after');
  expect((await alone.admin.list('/registry/', { signal })).revision).toBeGreaterThan(revision + BUMP);
  // A watch from an old revision must list the keys again.
  await until(() => watched.some(({ kind }) => kind === 'relist'));

  // The old majority and the survivor cannot reach each other, so each side commits only its own changes.
  const isolated = ({ config }: TestControlPlane) => ({
    peers: config.peers.filter((peer) => !peer.endsWith(`:${first.config.ports.client}`)),
  });
  const [back] = await Promise.all([second.start(isolated(second)), third.start(isolated(third))]);
  expect(await keysOf(back.admin)).toContain('lost');
  expect(await votersOf(alone.admin)).toEqual(['node-1']);
  const oldRevision = (await back.admin.list('/registry/', { signal })).revision;
  const watchedThere = follow(back.admin, oldRevision);

  // The old majority removes the survivor as lost. The survivor restarts meanwhile and ignores that majority,
  // whose epoch is older because it took no part in the recovery.
  const removed = (await back.admin.members.list({ signal })).find(({ name }) => name === 'node-1');
  await back.admin.members.remove(removed?.id ?? 0n, { signal });
  const again = await first.start({ createsCluster: false });
  expect(await votersOf(again.admin)).toEqual(['node-1']);
  expect(await keysOf(again.admin)).toEqual(['after', 'before']);

  // The partition heals. Both members of the old majority learn that they are outdated, delete their data and
  // join the recovered cluster.
  for (const node of [second, third])
    expect(await node.repair()).toMatchObject({ code: 'consensus-outdated' });
  // A node without a record in the recovered cluster does not join it, and keeps its data.
  const { layout, nodeId } = second.config;
  const beforeRejoin = async ({ endpoints }: NewestEpoch, child: AbortSignal) => {
    // The third member still has the record of the second one, but belongs to the older epoch.
    expect(endpoints).toEqual([`127.0.0.1:${first.config.ports.client}`]);
    await requireOwnRecord(second.ports, { layout, nodeId, endpoints }, child);
  };
  await expect(second.start({ beforeRejoin })).rejects.toMatchObject({ code: 'consensus-node-removed' });
  expect(await second.ports.files.stat(second.config.layout.memberData)).toBeDefined();
  expect(await votersOf(alone.admin)).toEqual(['node-1']);
  await recordNode(alone.admin, 'node-2');
  const [joined] = await Promise.all([second.start({ beforeRejoin }), third.start()]);
  expect(await votersOf(alone.admin)).toEqual(['node-1', 'node-2', 'node-3']);
  await write(joined.admin, 'together');
  for (const etcd of [alone.admin, joined.admin])
    expect(await keysOf(etcd)).toEqual(['after', 'before', 'together']);
  await until(() => watchedThere.some(({ kind }) => kind === 'relist'));
}, 240_000);
