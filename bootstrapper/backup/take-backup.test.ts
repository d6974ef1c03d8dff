import { createHash, createPrivateKey, createPublicKey } from 'node:crypto';
import { describe, expect, test } from '@jest/globals';
import {
  encodeBackupCertificate,
  parseFacts,
  readBackupHeader,
  readBackupParts,
  recoveryKeyOfOwner,
  signBackupCertificate,
  verifyBackup,
} from '../../internal/backup/index.ts';
import { ed25519PubKeyFrom, generateEd25519Key } from '../../internal/crypto/index.ts';
import { findCoded } from '../../internal/errors/index.ts';
import { EtcdError, type MemberStatus } from '../../internal/etcd/index.ts';
import { nodeIdOf } from '../../internal/pki/index.ts';
import { LowPriority } from '../../internal/platform/index.ts';
import { CLUSTER_KEY, CLUSTER_PREFIX, records, SETTINGS_KEY } from '../../internal/records/index.ts';
import { FakeClock, MemoryFiles } from '../../internal/testing/index.ts';
import type { BackupEtcd } from './stream-backup.ts';
import { createBackupTask, type BackupTaskOptions } from './take-backup.ts';

const signal = new AbortController().signal;
const NOW = 1_800_000_000_000;
const ownerPem = generateEd25519Key();
const owner = ed25519PubKeyFrom(ownerPem) ?? new Uint8Array();
const keyPem = generateEd25519Key();
const nodeId = nodeIdOf(
  createPublicKey(createPrivateKey(keyPem.reveal())).export({ format: 'der', type: 'spki' }),
);

const STORED: Readonly<Record<string, Uint8Array>> = {
  [CLUSTER_PREFIX + CLUSTER_KEY]: records.cluster.encode({
    ...{ version: 1, clusterId: 'c0ffee', clusterName: 'blue', firstNodeId: nodeId },
    ...{ epoch: 2, caPem: 'CA', createdMs: 1 },
  }),
  [CLUSTER_PREFIX + SETTINGS_KEY]: records.settings.encode({
    ...{ version: 1, clusterName: 'blue', kubernetesVersion: 'v1.37.2', bundleManifest: '{"manifest":1}' },
    ...{ podSubnet: '10.0.0.0/16', serviceSubnet: '10.1.0.0/16', apiServerSans: [] },
  }),
  [`${CLUSTER_PREFIX}nodes/node-w/record`]: records.node.encode({
    ...{ version: 1, nodeId: 'node-w', name: 'w1', pubKey: 'a2V5', state: 'UP', createdMs: 1 },
    ...{ roles: ['KubernetesWorker'], labels: {} },
  }),
  [`${CLUSTER_PREFIX}nodes/node-x/record`]: records.node.encode({
    ...{ version: 1, nodeId: 'node-x', name: 'x1', pubKey: 'a2V5', state: 'DECOMMISSIONED', createdMs: 1 },
    ...{ roles: ['KubernetesWorker'], labels: {} },
  }),
  [`${CLUSTER_PREFIX}nodes/node-w/heartbeat`]: Buffer.from('{}'),
};

/** An etcd whose history is compacted `compactions` times while its snapshot is read. */
function fakeEtcd(
  snapshot: string,
  compactions = 0,
  onSnapshot = () => Promise.resolve(),
  dbSizeBytes = 0,
): BackupEtcd {
  let compactRevision = 5n;
  const entry = { createRevision: 1n, modRevision: 1n, leaseId: 0n };
  return {
    get: (key) => Promise.resolve(STORED[key] && { ...entry, key, value: STORED[key] }),
    list: (prefix) =>
      Promise.resolve({
        revision: 41n,
        entries: Object.entries(STORED)
          .filter(([key]) => key.startsWith(prefix))
          .map(([key, value]) => ({ ...entry, key, value })),
      }),
    keys: async function* () {
      yield await Promise.resolve(['/registry/pods/default/a', '/registry/pods/default/b']);
      yield ['/cluster/nodes/n1'];
    },
    entries: async function* (prefix) {
      for (const name of ['a', 'b'])
        yield await Promise.resolve([
          { ...entry, key: `${prefix}pods/default/${name}`, value: Buffer.from(snapshot) },
        ]);
      if (compactions > 0) throw new EtcdError('etcd-compacted', 'reading');
    },
    maintenance: {
      hash: () => Promise.resolve({ hash: 4711, compactRevision, hashRevision: 1n }),
      status: () => Promise.resolve({ dbSizeBytes } as MemberStatus),
      snapshot: async function* () {
        await onSnapshot();
        compactRevision += BigInt(compactions);
        yield Buffer.from(snapshot);
      },
    },
  };
}

/** Each change of the priority of the agent. */
const niceness: number[] = [];
const lowPriority = new LowPriority((value) => void niceness.push(value), 0);

function taskOf(change: Partial<BackupTaskOptions> = {}) {
  const files = new MemoryFiles();
  return {
    files,
    task: createBackupTask({
      ...{ files, clock: new FakeClock(NOW), agentVersion: '1.0.0', clusterId: 'c0ffee', nodeId, keyPem },
      ...{ ownerKeys: [owner], lowPriority },
      usedCertificates: '/state/used',
      keyFiles: { 'ca.key': '/keys/ca.key', 'rotation.json': '/keys/rotation.json' },
      etcdMembers: () => ({ state: fakeEtcd('state data'), kubernetes: fakeEtcd('kubernetes data', 1) }),
      ...change,
    }),
  };
}

const order = (certificate: Uint8Array, workspace: Uint8Array = new Uint8Array()) => ({
  certificate,
  workspace,
});

type Content = Parameters<typeof signBackupCertificate>[0];

function certificateOf(change: Partial<Content> = {}, by = ownerPem): Uint8Array {
  const recipients = [recoveryKeyOfOwner(ownerPem).recipient];
  const content = { clusterId: 'c0ffee', epoch: 2, nodeId, recipients, issuedMs: NOW - 1, endsMs: NOW + 1 };
  return encodeBackupCertificate(
    signBackupCertificate({ ...content, ...change }, { keyPem: by, vouchers: [] }),
  );
}

async function all(chunks: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const parts: Uint8Array[] = [];
  for await (const chunk of chunks) parts.push(chunk);
  return Buffer.concat(parts);
}

async function* streamOf(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  await Promise.resolve();
  yield bytes;
}

const codeOf = async (work: Promise<unknown>): Promise<string> => {
  const error: unknown = await work.then(
    () => 'accepted',
    (reason: unknown) => reason,
  );
  return findCoded(error)?.code ?? String(error);
};

describe('createBackupTask()', () => {
  test('streams a backup that the owner can verify and read', async () => {
    const { files, task } = taskOf();
    await files.makeDirectory('/keys');
    await files.writeAtomic('/keys/ca.key', 'PRIVATE');
    const file = await all(task(order(certificateOf()), signal));
    expect(file.includes('PRIVATE')).toBe(false);
    expect(await readBackupHeader(streamOf(file))).toMatchObject({
      ...{ clusterId: 'c0ffee', clusterName: 'blue', epoch: 2 },
      revisions: { state: '41', kubernetes: '41' },
    });
    await verifyBackup(streamOf(file), { clusterId: 'c0ffee', epoch: 2, owners: [owner] });
    const parts: Record<string, string> = {};
    for await (const { name, data } of readBackupParts(streamOf(file), [recoveryKeyOfOwner(ownerPem)]))
      parts[name] = (parts[name] ?? '') + Buffer.from(data).toString();
    expect(parts).toMatchObject({
      ...{ configuration: '', bundle: '{"manifest":1}' },
      ...{ 'state-etcd': 'state data', 'kubernetes-etcd': 'kubernetes data' },
    });
    expect(JSON.parse(parts['shared-keys'] ?? '')).toEqual({ version: 1, files: { 'ca.key': 'PRIVATE' } });
    expect(parts['objects']).toMatch(/^(\["\/registry\/pods\/default\/[ab]","[^"]{44}"\]\n){2}$/);
    // The hash of an etcd that was compacted during its snapshot cannot be compared.
    expect(parseFacts(Buffer.from(parts['facts'] ?? ''))).toEqual({
      version: 1,
      state: { revision: '41', hash: 4711, objects: { nodes: 1, pods: 2 } },
      kubernetes: { revision: '41', objects: { nodes: 1, pods: 2 } },
      nodes: [{ nodeId: 'node-w', name: 'w1', roles: ['KubernetesWorker'] }],
    });
  });

  test('has low priority until it is complete, so that API servers do not wait for it', async () => {
    niceness.length = 0;
    const chunks = taskOf().task(order(certificateOf()), signal);
    await chunks.next();
    expect(niceness).toEqual([10]);
    await all(chunks);
    expect(niceness).toEqual([10, 0]);
  });

  test('reads a large database faster, so that its revision is not compacted meanwhile', async () => {
    const MIB = 1024 ** 2;
    const secondsFor = async (dbSizeBytes: number): Promise<number> => {
      const clock = new FakeClock(NOW);
      clock.sleep = (ms) => clock.advance(ms);
      const kubernetes = fakeEtcd('x'.repeat(4 * MIB), 0, undefined, dbSizeBytes); // read once as a snapshot, twice as objects
      const etcdMembers = () => ({ state: fakeEtcd('state data'), kubernetes });
      await all(taskOf({ clock, etcdMembers }).task(order(certificateOf()), signal));
      return (clock.monotonicMs() - NOW) / 1000;
    };
    expect(await secondsFor(800 * MIB)).toBeCloseTo(12 / 4);
    expect(await secondsFor(4000 * MIB)).toBeCloseTo(12 / 16);
  });

  test('gives up if the shared keys change after they were read, because the keys in the backup may not decrypt the snapshots', async () => {
    const { files, task } = taskOf({
      etcdMembers: () => ({
        state: fakeEtcd('state data'),
        kubernetes: fakeEtcd('kubernetes data', 0, () => files.writeAtomic('/keys/rotation.json', 'next')),
      }),
    });
    await files.makeDirectory('/keys');
    await files.writeAtomic('/keys/ca.key', 'PRIVATE');
    expect(await codeOf(all(task(order(certificateOf()), signal)))).toBe('backup-node-keys-changed');
  });

  const otherOwner = generateEd25519Key();
  test.each([
    {
      name: 'signed by another owner',
      bytes: certificateOf({}, otherOwner),
      want: 'backup-certificate-invalid',
    },
    { name: 'of another cluster', bytes: certificateOf({ clusterId: 'x' }), want: 'backup-other-cluster' },
    {
      name: 'that has expired',
      bytes: certificateOf({ endsMs: NOW - 1 }),
      want: 'backup-certificate-invalid',
    },
    { name: 'of another epoch', bytes: certificateOf({ epoch: 1 }), want: 'backup-node-mismatch' },
    {
      name: 'for another node',
      bytes: certificateOf({ nodeId: `node-${'0'.repeat(32)}` }),
      want: 'backup-node-mismatch',
    },
    { name: 'that is malformed', bytes: Buffer.from('{}'), want: 'backup-certificate-invalid' },
  ])('reads nothing and refuses a certificate $name', async ({ bytes, want }) => {
    expect(await codeOf(all(taskOf().task(order(bytes), signal)))).toBe(want);
  });

  test('contains the workspace that the owner signed, and refuses another workspace', async () => {
    const workspace = Buffer.from('sealed');
    const workspaceSha256 = createHash('sha256').update(workspace).digest('hex');
    const file = await all(taskOf().task(order(certificateOf({ workspaceSha256 }), workspace), signal));
    const pieces = readBackupParts(streamOf(file), [recoveryKeyOfOwner(ownerPem)]);
    const first = await Array.fromAsync(pieces);
    const found = first.filter(({ name }) => name === 'workspace').map(({ data }) => data);
    expect(Buffer.concat(found).toString()).toBe('sealed');
    for (const refused of [
      order(certificateOf({ workspaceSha256 }), Buffer.from('other')),
      order(certificateOf({ workspaceSha256 })),
      order(certificateOf(), workspace),
    ])
      expect(await codeOf(all(taskOf().task(refused, signal)))).toBe('backup-certificate-invalid');
  });

  test('refuses the certificate of a schedule, which a curator could use again and again', async () => {
    const content = {
      ...{ clusterId: 'c0ffee', epoch: 2, nodeIds: [nodeId], everyMinutes: 60, keep: 1 },
      ...{ recipients: [recoveryKeyOfOwner(ownerPem).recipient], issuedMs: NOW - 1, endsMs: NOW + 1 },
    };
    const bytes = encodeBackupCertificate(signBackupCertificate(content, { keyPem: ownerPem, vouchers: [] }));
    expect(await codeOf(all(taskOf().task(order(bytes), signal)))).toBe('backup-node-mismatch');
  });

  test('refuses recipients that the owner did not sign', async () => {
    const changed = JSON.parse(Buffer.from(certificateOf()).toString()) as Record<string, unknown>;
    changed['recipients'] = [recoveryKeyOfOwner(otherOwner).recipient];
    const bytes = Buffer.from(JSON.stringify(changed));
    expect(await codeOf(all(taskOf().task(order(bytes), signal)))).toBe('backup-certificate-invalid');
  });

  test('refuses a node that runs no etcd, but waits for the members of an agent that has just started', async () => {
    const clock = new FakeClock(NOW);
    const none = taskOf({ clock, etcdMembers: () => undefined });
    const refused = codeOf(all(none.task(order(certificateOf()), signal)));
    await clock.advance(20_000);
    expect(await refused).toBe('backup-node-not-control-plane');
    const members = { state: fakeEtcd('state data'), kubernetes: fakeEtcd('kubernetes data', 1) };
    const later = new FakeClock(NOW);
    const startedMs = later.monotonicMs() + 5_000;
    const etcdMembers = () => (later.monotonicMs() < startedMs ? undefined : members);
    const taken = codeOf(all(taskOf({ clock: later, etcdMembers }).task(order(certificateOf()), signal)));
    await later.advance(6_000);
    expect(await taken).toBe('accepted');
  });

  test('accepts a certificate only once, also after a restart or when a curator changes unsigned fields', async () => {
    const { files, task } = taskOf();
    const bytes = certificateOf();
    await all(task(order(bytes), signal));
    expect(await codeOf(all(taskOf({ files }).task(order(bytes), signal)))).toBe('backup-certificate-used');
    const changed = JSON.parse(Buffer.from(bytes).toString()) as Record<string, unknown>;
    changed['vouchers'] = [
      { by: Buffer.from(owner).toString('base64'), signature: Buffer.alloc(64).toString('base64') },
    ];
    const again = taskOf({ files }).task(order(Buffer.from(JSON.stringify(changed))), signal);
    expect(await codeOf(all(again))).toBe('backup-certificate-used');
    expect(await codeOf(all(task(order(certificateOf({ issuedMs: NOW - 2 })), signal)))).toBe('accepted');
  });

  test('records the certificate before it reads etcd', async () => {
    const { files, task } = taskOf({
      etcdMembers: () => {
        const broken = { ...fakeEtcd(''), get: () => Promise.reject(new Error('etcd is away')) };
        return { state: broken, kubernetes: broken };
      },
    });
    expect(await codeOf(all(task(order(certificateOf()), signal)))).toBe('Error: etcd is away');
    expect(await codeOf(all(taskOf({ files }).task(order(certificateOf()), signal)))).toBe(
      'backup-certificate-used',
    );
  });

  test('forgets a used certificate long after its expiry', async () => {
    const files = new MemoryFiles();
    await all(taskOf({ files }).task(order(certificateOf()), signal));
    const clock = new FakeClock(NOW + 8 * 24 * 3600_000);
    const later = certificateOf({ issuedMs: clock.nowMs() - 1, endsMs: clock.nowMs() + 1 });
    await all(taskOf({ files, clock }).task(order(later), signal));
    expect(await files.list('/state/used')).toHaveLength(1);
  });

  test('takes one backup at a time', async () => {
    const { task } = taskOf();
    const other = certificateOf({ issuedMs: NOW - 2 });
    const first = task(order(certificateOf()), signal);
    await first.next();
    expect(await codeOf(all(task(order(other), signal)))).toBe('backup-node-busy');
    await first.return(undefined);
    expect(await codeOf(all(task(order(other), signal)))).toBe('accepted');
  });
});
