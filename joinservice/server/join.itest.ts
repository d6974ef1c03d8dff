import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { generateKeyPairSync, X509Certificate } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createEvidenceSocketServer, JOIN_CONTEXT } from '../../internal/atls/remote/index.ts';
import { ChainVerifier } from '../../internal/audit/index.ts';
import { SystemClock } from '../../internal/clock/index.ts';
import {
  ed25519PubKeyFrom,
  generateEd25519Key,
  ownershipStatement,
  signEd25519,
  unseal,
} from '../../internal/crypto/index.ts';
import { Namespace, put, type KeySpace } from '../../internal/etcd/index.ts';
import { DiskFiles, DiskStreams } from '../../internal/file/index.ts';
import { createAuthorityPem, generateKeyPem } from '../../internal/pki/index.ts';
import {
  AUDIT_PREFIX,
  CLUSTER_PREFIX,
  CONFIGURATION_KEY,
  OWNERSHIP_KEY,
  records,
  SETTINGS_KEY,
} from '../../internal/records/index.ts';
import {
  createMemoryLogger,
  createSwtpmFactory,
  TestCluster,
  TestEtcd,
  untilServing,
  type Swtpm,
  type SwtpmFactory,
  type TestMember,
} from '../../internal/testing/index.ts';
import type { Tpm } from '../../internal/tpm/index.ts';
import { CONTROL_PLANE_KEYS, serveSigner } from '../signer/index.ts';
import { hardwareOf, TestMachine } from '../testing/index.ts';
import { serve } from './serve.ts';

/** As a new cluster.yaml has it. */
const DEFAULT_ATTESTATION = {
  firstContact: 'fingerprint',
  policy: {
    name: 'identity',
    profile: 'identity',
    machines: 'any-proved',
    tpm: { requiredPcrs: [0, 4, 7], eventLog: 'optional' },
  },
};
const never = new AbortController().signal;
const clock = new SystemClock();
const coded = (code: string): unknown => expect.objectContaining({ code });

let folder: string;
let etcd: TestEtcd;
let member: TestMember;
let factory: SwtpmFactory;
let cluster: TestCluster;
let space: KeySpace;
let endpoint: string;
const closing: (() => Promise<unknown>)[] = [];

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'cluster-join-'));
  [etcd, factory] = await Promise.all([TestEtcd.create(), createSwtpmFactory()]);
  member = await etcd.startMember('one');
  const root = await etcd.connect('root', member.endpoint);
  await untilServing(root);
  space = new Namespace(root, CLUSTER_PREFIX);
  cluster = await TestCluster.create(space, () => clock.nowMs());
  await describeCluster();
  await configure('approve');
  endpoint = await start();
}, 60_000);

afterAll(async () => {
  for (const close of closing.reverse()) await close();
  await etcd[Symbol.asyncDispose]();
  await factory[Symbol.asyncDispose]();
  await rm(folder, { recursive: true });
}, 30_000);

async function describeCluster(): Promise<void> {
  const ownerKeyPem = generateEd25519Key();
  const statement = ownershipStatement({
    clusterId: cluster.clusterId,
    clusterCaPem: cluster.trust.caPem,
    epoch: 1n,
  });
  const base64 = (bytes: Uint8Array): string => Buffer.from(bytes).toString('base64');
  const ownership = {
    version: 1 as const,
    epoch: 1,
    ownerPubKey: base64(ed25519PubKeyFrom(ownerKeyPem) ?? new Uint8Array()),
    signature: base64(signEd25519(ownerKeyPem, statement)),
    timeMs: 1,
  };
  const settings = {
    version: 1 as const,
    clusterName: 'test',
    kubernetesVersion: 'v1.34.0',
    podSubnet: '10.244.0.0/16',
    serviceSubnet: '10.96.0.0/12',
    apiServerSans: [],
    bundleManifest: '{}',
  };
  await write(OWNERSHIP_KEY, records.ownership.encode(ownership));
  await write(SETTINGS_KEY, records.settings.encode(settings));
}

async function write(key: string, value: Uint8Array): Promise<void> {
  await space.commit({ when: [], then: [put(key, value)] }, { signal: never });
}

async function configure(policy: string, inventory: readonly unknown[] = []): Promise<void> {
  const attestation = { ...DEFAULT_ATTESTATION, variants: ['tpm'] };
  const document = JSON.stringify({ version: 1, name: 'test', attestation, join: { policy, inventory } });
  const record = { version: 1 as const, document: btoa(document), updatedMs: 1, updatedBy: 'test' };
  await write(CONFIGURATION_KEY, records.configuration.encode(record));
}

/** Join service, signer and evidence socket, each as its own program would be. */
async function start(): Promise<string> {
  const log = createMemoryLogger().log;
  const files = new DiskFiles();
  const at = (name: string): string => join(folder, name);
  const { privateKey } = generateKeyPairSync('ed25519');
  const node = await cluster.addNode(
    'first',
    { roles: ['ConsensusMember', 'KubernetesController'] },
    privateKey,
  );
  const keys = await writeKeys();
  const client = await etcd.clientFiles('root');
  const contents = {
    'ca.crt': cluster.trust.caPem,
    'node.crt': node.tls.certPem,
    'node.key': node.tls.keyPem.reveal(),
    'etcd-ca.crt': client.caPem,
    'etcd.crt': client.certPem,
    'etcd.key': client.keyPem.reveal(),
  };
  for (const [name, text] of Object.entries(contents)) await writeFile(at(name), text, { mode: 0o600 });
  const etcdFiles = { caFile: at('etcd-ca.crt'), certFile: at('etcd.crt'), keyFile: at('etcd.key') };
  const { tpm } = await machine('server');
  const evidence = await createEvidenceSocketServer({
    path: at('evidence.sock'),
    context: JOIN_CONTEXT,
    issuers: [hardwareOf(tpm).issuer],
    files,
    clock,
    log,
  });
  closing.push(() => Promise.resolve(evidence[Symbol.asyncDispose]()));
  const stop = new AbortController();
  const ports = { files, streams: new DiskStreams(), clock, log };
  const listening = Promise.withResolvers<number>();
  const serving = serve(
    {
      version: 1,
      clusterId: cluster.clusterId,
      nodeId: node.identity.kind === 'node' ? node.identity.nodeId : '',
      listen: { host: '127.0.0.1', port: 0 },
      clusterCaFile: at('ca.crt'),
      certFile: at('node.crt'),
      keyFile: at('node.key'),
      stores: [],
      join: {
        listen: { host: '127.0.0.1', port: 0 },
        address: '127.0.0.1',
        evidence: { socket: at('evidence.sock'), variant: 'tpm' },
        signer: { socket: at('signer.sock'), etcdPipe: at('etcd.sock') },
      },
      etcd: { endpoints: [member.endpoint], ...etcdFiles, metricsUrl: member.metricsUrl },
    },
    ports,
    { signal: stop.signal, onJoinListening: listening.resolve },
  );
  serving.catch((error: unknown) => listening.reject(error));
  const signing = Promise.withResolvers<void>();
  const signer = serveSigner(
    {
      version: 1,
      listen: at('signer.sock'),
      keys,
      etcd: { endpoint: `unix:${at('etcd.sock')}`, ...etcdFiles },
    },
    ports,
    { signal: stop.signal, onListening: () => signing.resolve() },
  );
  closing.push(async () => {
    stop.abort(new Error('the test is over'));
    await Promise.allSettled([serving, signer]);
  });
  const [port] = await Promise.all([listening.promise, signing.promise]);
  return `127.0.0.1:${port}`;
}

async function writeKeys(): Promise<string> {
  const nowMs = clock.nowMs();
  for (const name of CONTROL_PLANE_KEYS) await writeFile(join(folder, name), `text of ${name}`);
  const keyPem = generateKeyPem();
  const kubernetesCa = await createAuthorityPem({ commonName: 'kubernetes', keyPem, nowMs });
  const { caPem, keyPem: clusterKey } = cluster.authority;
  await writeFile(join(folder, 'kubernetes-ca.crt'), kubernetesCa);
  await writeFile(join(folder, 'kubernetes-ca.key'), keyPem.reveal());
  await writeFile(join(folder, 'cluster-ca.crt'), caPem);
  await writeFile(join(folder, 'cluster-ca.key'), clusterKey.reveal());
  return folder;
}

/** A machine with a TPM of its own. */
async function machine(name: string): Promise<{ readonly tpm: Tpm; readonly chip: Swtpm }> {
  const own = await createSwtpmFactory();
  const chip = await own.start();
  const tpm = chip.open();
  closing.push(async () => {
    await tpm[Symbol.asyncDispose]();
    await chip[Symbol.asyncDispose]();
    await own[Symbol.asyncDispose]();
  });
  expect(name).not.toBe('');
  return { tpm, chip };
}

async function auditOf(subject: string): Promise<readonly Record<string, unknown>[]> {
  const { entries } = await space.list(AUDIT_PREFIX, { signal: never });
  const verifier = new ChainVerifier();
  return entries
    .map(({ value }) => verifier.next(value))
    .filter((entry) => entry.subject === subject)
    .map(({ method, detail }) => ({ method, ...detail }));
}

describe('a machine with a TPM, real attested TLS, real etcd, a real signer', () => {
  test('waits for approval, is named by the inventory, and becomes a member', async () => {
    const { tpm } = await machine('a');
    const a = new TestMachine(hardwareOf(tpm));
    using session = await a.dial(endpoint);
    const events = session.admission({ wantedName: 'fast' });
    expect((await events.next()).value).toMatchObject({
      case: 'cluster',
      value: { clusterId: cluster.clusterId },
    });
    expect((await events.next()).value).toMatchObject({ case: 'challenge' });
    expect((await events.next()).value).toMatchObject({
      case: 'waiting',
      value: { joinId: a.nodeId, code: 'join-awaiting-approval' },
    });
    const entry = await space.get(records.join.key(a.nodeId), { signal: never });
    const waiting = records.join.decode('', entry?.value ?? new Uint8Array());
    expect(waiting).toMatchObject({ state: 'pending', machine: { proof: 'unproved', variant: 'tpm' } });
    await expect(session.ticket()).rejects.toEqual(coded('join-not-admitted'));
    // The operator names it: the machine that waits learns it over the stream that it holds open.
    await configure('inventory', [
      { identity: waiting.machine.identity, name: 'a-1', roles: ['control-plane'], labels: { zone: 'x' } },
    ]);
    expect((await events.next()).value).toMatchObject({
      case: 'admitted',
      value: { joinId: a.nodeId, nodeName: 'a-1', roles: ['ConsensusMember', 'KubernetesController'] },
    });
    const ticket = await session.ticket();
    expect(ticket).toMatchObject({
      nodeId: a.nodeId,
      nodeName: 'a-1',
      clusterId: cluster.clusterId,
      labels: { zone: 'x' },
    });
    expect(ticket.controlPlanes.length).toBe(1);
    const kubelet = new X509Certificate(ticket.kubeletServingCertificatePem);
    expect(kubelet.subject).toContain('CN=system:node:a-1');
    expect(kubelet.checkIssued(new X509Certificate(ticket.kubernetesCaPem))).toBe(true);
    const sealed = ticket.controlPlaneKeys;
    if (sealed === undefined) throw new Error('no keys');
    const context = { kind: 'control-plane-keys', clusterId: cluster.clusterId, nodeId: a.nodeId } as const;
    const keys = JSON.parse(
      Buffer.from(unseal(sealed, a.sealingKeyPem, context).reveal()).toString(),
    ) as object;
    expect(Object.keys(keys)).toEqual(CONTROL_PLANE_KEYS);
    // The answer was lost: the same membership again; and later, by rejoining.
    expect((await session.ticket()).nodeName).toBe('a-1');
    using again = await a.dial(endpoint);
    expect((await again.rejoin()).nodeName).toBe('a-1');
    expect((await auditOf(a.nodeId)).map(({ verdict }) => verdict)).toEqual([
      'waiting',
      'admitted',
      'joined',
    ]);
  }, 60_000);
});
