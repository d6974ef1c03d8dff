import { afterEach, describe, expect, test } from '@jest/globals';
import { rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Namespace, put } from '../../internal/etcd/index.ts';
import type { Command } from '../../internal/exec/index.ts';
import { DiskFiles } from '../../internal/file/index.ts';
import { generateKeyPem, pubKeyDerOf } from '../../internal/pki/index.ts';
import { CLUSTER_PREFIX, records } from '../../internal/records/index.ts';
import { closeOpened } from '../../internal/testing/index.ts';
import { createClusterRecords, saveInitResult, type NewCluster } from './cluster-records.ts';
import { startMember } from './consensus.ts';
import { STATE_ETCD } from './etcd-instances.ts';
import { connect, createMembers, TestMember } from './fake-member.ts';

const signal = new AbortController().signal;
const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);

afterEach(closeOpened);

async function createNode() {
  const [{ config }] = await createMembers(1);
  const ran: (readonly string[])[] = [];
  const member = new TestMember(
    { ...config, readyTimeoutMs: 20_000 },
    {
      run: async ({ argv }: Command) => {
        ran.push(argv);
        return { exitCode: 0, stdout: '', stderr: '' };
      },
    },
  );
  return { member, config: member.config, layout: config.layout, units: member.units, ran };
}

const denied: unknown = expect.objectContaining({ code: 'etcd-denied' });

describe('start()', () => {
  test('creates a member of the state etcd; its curator user accesses only the records, and its signer user only reads them', async () => {
    const { member } = await createNode();
    const running = await member.start();
    const curator = await connect(running.client('curator'));
    const write = (key: string) => ({ when: [], then: [put(key, bytes('x'))] });
    await curator.commit(write('/cluster/nodes/a'), { signal });
    for (const key of ['/registry/pods/a', '/cluster0', '/', 'a']) {
      await expect(curator.get(key, { signal })).rejects.toEqual(denied);
      await expect(curator.commit(write(key), { signal })).rejects.toEqual(denied);
    }
    await expect(curator.list('', { signal })).rejects.toEqual(denied);
    const signer = await connect(running.client('signer'));
    expect((await signer.get('/cluster/nodes/a', { signal }))?.key).toBe('/cluster/nodes/a');
    await expect(signer.commit(write('/cluster/nodes/a'), { signal })).rejects.toEqual(denied);
    for (const client of [curator, signer]) {
      await expect(client.members.addLearner('https://127.0.0.1:1', { signal })).rejects.toEqual(denied);
      await expect(client.access.ensureUser({ name: 'eve', permissions: [] }, { signal })).rejects.toEqual(
        denied,
      );
      await expect(client.maintenance.snapshot(signal).next()).rejects.toEqual(denied);
    }
  }, 20_000);

  test('changes nothing when start() is called again, and serves all data after a power cut', async () => {
    const { member, units, ran, config } = await createNode();
    const first = await member.start();
    await first.admin.commit({ when: [], then: [put('kept', bytes('x'))] }, { signal });
    const { mainPid } = await units.status(STATE_ETCD.unit);
    await member.start();
    expect((await units.status(STATE_ETCD.unit)).mainPid).toBe(mainPid);
    await units.kill(STATE_ETCD.unit);
    const third = await member.start();
    expect((await third.admin.get('kept', { signal }))?.key).toBe('kept');
    expect(units.moves).toEqual([`start ${STATE_ETCD.unit}`, `start ${STATE_ETCD.unit}`]);
    expect(ran.filter(([program]) => program === 'chown')).toContainEqual(
      expect.arrayContaining([`${config.layout.stateDir}/etcd-state`]),
    );
  }, 30_000);

  test('updates the peer URL when the address of the machine has changed', async () => {
    const { member, config, units } = await createNode();
    await member.start();
    const moved = await member.start({ address: '127.0.0.2' });
    const [listed] = await moved.admin.members.list({ signal });
    expect(listed?.peerUrls).toEqual([`https://127.0.0.2:${config.ports.peer}`]);
    expect(units.moves.at(-1)).toBe(`restart ${STATE_ETCD.unit}`);
  }, 30_000);

  test('completes after a crash between any two writes', async () => {
    const { member, units, config } = await createNode();
    let crashes = 0;
    for (let survivingWrites = 0; ; survivingWrites++) {
      const files = new CrashingFiles(survivingWrites);
      try {
        const running = await startMember(member.portsOf(files), config, signal);
        running[Symbol.dispose]();
        if (!files.crashed) break;
      } catch (error) {
        expect(error).toBeInstanceOf(PowerCut);
        crashes++;
        await units.kill(STATE_ETCD.unit);
      }
    }
    expect(crashes).toBeGreaterThan(10);
    const running = await member.start();
    await connect(running.client('curator')).then((curator) => curator.list(CLUSTER_PREFIX, { signal }));
  }, 60_000);

  test.each([
    { name: 'the CA certificate of clients', file: 'clientsCa' as const, part: 'certFile' as const },
    { name: 'the CA key of clients', file: 'clientsCa' as const, part: 'keyFile' as const },
    { name: 'the CA certificate of peers', file: 'peersCa' as const, part: 'certFile' as const },
  ])(
    'refuses to start with data but without $name, and changes nothing',
    async ({ file, part }) => {
      const { member, layout, units } = await createNode();
      (await member.start())[Symbol.dispose]();
      await units.kill(STATE_ETCD.unit);
      const path = layout[file][part];
      await rm(path);
      const files = new CrashingFiles(0); // any write would fail the test with another error
      await expect(member.start({}, files)).rejects.toMatchObject({
        code: 'consensus-pki-missing',
        details: { path },
      });
      await expect(stat(path)).rejects.toMatchObject({ code: 'ENOENT' });
      expect(units.moves).toEqual([`start ${STATE_ETCD.unit}`]);
    },
    20_000,
  );

  test('rejects after the configured time if etcd does not serve', async () => {
    const { member, config } = await createNode();
    const etcdBinary = join(config.layout.stateDir, 'deaf-etcd');
    await writeFile(etcdBinary, '#!/bin/sh\nexec sleep 600\n', { mode: 0o755 });
    const startedMs = performance.now();
    await expect(member.start({ etcdBinary, readyTimeoutMs: 1_000 })).rejects.toMatchObject({
      code: 'consensus-not-ready',
      retryable: true,
      cause: { code: 'etcd-unavailable' },
    });
    expect(performance.now() - startedMs).toBeGreaterThan(1_000);
  }, 20_000);

  test('refuses to start an empty etcd if the data of a former member is lost', async () => {
    const { member, layout, units } = await createNode();
    (await member.start())[Symbol.dispose]();
    await units.kill(STATE_ETCD.unit);
    await rm(layout.data, { recursive: true });
    await expect(member.start({}, new CrashingFiles(0))).rejects.toMatchObject({
      code: 'consensus-data-missing',
    });
  }, 20_000);
});

describe('createClusterRecords()', () => {
  const node = {
    name: 'n1',
    address: '192.0.2.1',
    pubKeyDer: pubKeyDerOf(generateKeyPem()),
    roles: ['ConsensusMember'] as const,
    labels: {},
    admission: undefined,
  };
  const settings = {
    clusterName: 'test',
    kubernetesVersion: 'v1.34.0',
    podSubnet: '10.244.0.0/16',
    serviceSubnet: '10.96.0.0/12',
    apiServerSans: [],
    bundleManifest: '{}',
  };
  const owner = { name: 'owner', pubKeyDer: pubKeyDerOf(generateKeyPem()) };
  const newCluster: NewCluster = {
    clusterId: 'c0ffee',
    clusterName: 'test',
    caPem: 'CA',
    node,
    settings,
    owners: [owner],
    configuration: bytes('{}'),
    nowMs: 1,
  };

  test('writes all records once despite repeated and parallel calls, and refuses another cluster', async () => {
    const { member } = await createNode();
    const etcd = new Namespace((await member.start()).admin, CLUSTER_PREFIX);
    const results = await Promise.all(
      Array.from({ length: 8 }, () => createClusterRecords(etcd, newCluster, signal)),
    );
    expect(results.filter(({ already }) => !already)).toHaveLength(1);
    const { entries, revision } = await etcd.list('', { signal });
    expect(entries.map(({ key }) => key.replace(/\/.*/, '')).sort()).toEqual([
      'configuration',
      'control-plane-addresses',
      'meta',
      'meta',
      'node-names',
      'nodes',
      'operators',
    ]);
    const otherCluster = { ...newCluster, clusterId: 'bad' };
    const secondNode = { ...newCluster, node: { ...node, pubKeyDer: pubKeyDerOf(generateKeyPem()) } };
    for (const other of [otherCluster, secondNode, { ...newCluster, caPem: 'another CA' }]) {
      await expect(createClusterRecords(etcd, other, signal)).rejects.toMatchObject({
        code: 'consensus-other-cluster',
      });
    }
    expect((await etcd.list('', { signal })).revision).toBe(revision);

    await saveInitResult(etcd, { initId: 'i', result: bytes('first') }, signal);
    await saveInitResult(etcd, { initId: 'i', result: bytes('second') }, signal);
    const kept = await etcd.get(records.initResult.key('result'), { signal });
    expect(records.initResult.decode('k', kept?.value ?? bytes('')).result).toBe(btoa('first'));
  }, 20_000);
});

class PowerCut extends Error {}

/** A real disk that fails permanently at the n-th change. */
class CrashingFiles extends DiskFiles {
  #left: number;
  crashed = false;

  constructor(changes: number) {
    super();
    this.#left = changes;
  }

  override async writeAtomic(...args: Parameters<DiskFiles['writeAtomic']>): Promise<void> {
    this.#spend();
    await super.writeAtomic(...args);
  }

  override async createExclusive(...args: Parameters<DiskFiles['createExclusive']>): Promise<boolean> {
    this.#spend();
    return super.createExclusive(...args);
  }

  override async makeDirectory(...args: Parameters<DiskFiles['makeDirectory']>): Promise<void> {
    this.#spend();
    await super.makeDirectory(...args);
  }

  #spend(): void {
    if (this.#left-- > 0) return;
    this.crashed = true;
    throw new PowerCut();
  }
}
