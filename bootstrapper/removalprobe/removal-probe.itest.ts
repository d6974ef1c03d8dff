import { create, toBinary } from '@bufbuild/protobuf';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { X509Certificate } from 'node:crypto';
import { readdir, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { SystemClock } from '../../internal/clock/index.ts';
import { Namespace, type EtcdClient, type Member } from '../../internal/etcd/index.ts';
import { DiskFiles } from '../../internal/file/index.ts';
import {
  encodeKeySet,
  createPairs,
  type RotatingPair,
  type RotatingPairs,
} from '../../internal/keyset/index.ts';
import { createCaCertPem, generateKeyPem } from '../../internal/pki/index.ts';
import { CLUSTER_PREFIX, records } from '../../internal/records/index.ts';
import { Secret } from '../../internal/secret/index.ts';
import {
  closeOpened,
  createMemoryLogger,
  findEtcdBinary,
  findFreePort,
  MemoryEtcd,
  opened,
  ProcessUnits,
  temporaryDirectory,
} from '../../internal/testing/index.ts';
import { NodeStatusSchema } from '../../joinservice/curatorproto/gen/curator_pb.js';
import { ProbeResult_Outcome as Outcome } from '../../joinservice/curatorproto/gen/streams_pb.js';
import { KeyStore } from '../keyrotation/index.ts';
import { CONTROL_PLANE_KEY_FILES } from '../kubernetes/index.ts';
import { KEY_PATHS } from '../nodestate/index.ts';
import { startMember, consensusLayout, KUBERNETES_ETCD, type RunningConsensus } from '../consensus/index.ts';
import { createTestCredential, type TestCertificate } from './credentials.ts';
import { ENDPOINT_RULES, judgeAnswer } from './endpoints.ts';
import { runRemovalProbe } from './removal-probe.ts';
import { sendCredential } from './send-credential.ts';

const signal = new AbortController().signal;
const clock = new SystemClock();
const files = new DiskFiles();
const REMOVED = `node-${'b'.repeat(32)}`;
const HERE = `node-${'c'.repeat(32)}`;

let directory: string;
let units: ProcessUnits;
let running: RunningConsensus;
/** The paths of this test's keys, by their names in `CONTROL_PLANE_KEY_FILES`. */
let keyFiles: Readonly<Record<string, string>>;
/** Where this test keeps the other files of a control plane, by their fixed paths. */
const moved = new Map<string, string>();
let rotation: string;
const etcd = new MemoryEtcd();

/**
 * Starts a real etcd with the certificates that a control plane gives it. There is no API server and no
 * kubelet.
 */
beforeAll(async () => {
  directory = opened(await temporaryDirectory()).path;
  units = opened(new ProcessUnits());
  const stateDir = join(directory, 'state');
  await files.makeDirectory(stateDir);
  const commands = { run: async () => ({ exitCode: 0, stdout: '', stderr: '' }) };
  const layout = consensusLayout(stateDir, 'kubernetes');
  const member = await startMember(
    { files, commands, units, clock, log: createMemoryLogger().log },
    {
      etcd: KUBERNETES_ETCD,
      nodeId: HERE,
      address: '127.0.0.1',
      clusterId: 'c0ffee',
      ports: { client: await findFreePort(), peer: await findFreePort(), metrics: await findFreePort() },
      quotaBytes: 64 * 1024 * 1024,
      createsCluster: true,
      peers: [],
      etcdBinary: await findEtcdBinary(directory),
      layout,
    },
    signal,
  );
  running = opened(member);
  keyFiles = {
    ...(await createKeyFiles()),
    'etcd-clients-ca.crt': layout.clientsCa.certFile,
    'etcd-clients-ca.key': layout.clientsCa.keyFile,
    'etcd-peers-ca.crt': layout.peersCa.certFile,
    'etcd-peers-ca.key': layout.peersCa.keyFile,
  };
  rotation = join(directory, 'rotation.json');
  moved.set(KEY_PATHS.rotation, rotation);
  for (const [kind, { valid }] of Object.entries(ENDPOINT_RULES)) {
    const pair = kind === 'etcd-client' ? layout.user('root') : layout.peer;
    moved.set(valid.certFile, pair.certFile).set(valid.keyFile, pair.keyFile);
  }
  const status = Buffer.from(toBinary(NodeStatusSchema, create(NodeStatusSchema, { address: '127.0.0.1' })));
  const [version, nodeId] = [1 as const, HERE];
  const written = {
    when: [],
    then: [
      records.node.put(records.node.key(nodeId), {
        ...{ version, nodeId, name: 'here', pubKey: '', state: 'UP', labels: {}, createdMs: 0 },
        roles: ['ConsensusMember'],
      }),
      records.status.put(records.status.key(nodeId), {
        version,
        status: status.toString('base64'),
        updatedMs: 0,
      }),
      records.heartbeat.put(records.heartbeat.key(nodeId), { version, sinceMs: 0 }),
    ],
  };
  await new Namespace(etcd, CLUSTER_PREFIX).commit(written, { signal });
}, 60_000);

afterAll(closeOpened);

/** Creates the files of a new CA; the files have its name. */
async function createCa(name: string) {
  const at = { certFile: join(directory, `${name}.crt`), keyFile: join(directory, `${name}.key`) };
  const keyPem = generateKeyPem();
  await files.writeAtomic(at.keyFile, keyPem.reveal());
  await files.writeAtomic(
    at.certFile,
    await createCaCertPem({ commonName: name, keyPem, nowMs: Date.now() }),
  );
  return at;
}

/** Creates all key files of a control plane. */
async function createKeyFiles() {
  const written: Record<string, string> = {};
  for (const name of Object.keys(CONTROL_PLANE_KEY_FILES).filter((each) => each.endsWith('-ca.crt'))) {
    const ca = name.slice(0, -'.crt'.length);
    const { certFile, keyFile } = await createCa(ca);
    written[`${ca}.crt`] = certFile;
    written[`${ca}.key`] = keyFile;
  }
  return {
    ...written,
    'service-account.key': written['cluster-ca.key'] ?? '',
    'service-account.pub': written['cluster-ca.crt'] ?? '',
  };
}

async function probeEtcd(over: Readonly<Record<string, string>> = {}, heldKeys = true, generation = 0) {
  const { results } = await runRemovalProbe(
    { ...ports(over), etcds: etcdsWith(await running.admin.members.list({ signal })) },
    { removedNodeId: REMOVED, heldKeys, generation: BigInt(generation) },
    signal,
  );
  return results
    .filter(({ endpoint }) => endpoint.startsWith('etcd-'))
    .map(({ endpoint, credential, outcome }) => `${endpoint} ${credential} ${Outcome[outcome]}`);
}

/** The etcd clients of a control plane whose Kubernetes etcd has these members. */
function etcdsWith(members: readonly Member[]) {
  const { admin } = running;
  const kubernetes: Pick<EtcdClient, 'get' | 'keys'> = {
    get: (key, options) => admin.get(key, options),
    keys: (prefix, pageSize, options) => admin.keys(prefix, pageSize, options),
  };
  return {
    state: Object.assign(etcd, { members: { list: async () => [] } }) as unknown as EtcdClient,
    kubernetes: { ...kubernetes, members: { list: async () => members } } as unknown as EtcdClient,
  };
}

/**
 * The ports (injected dependencies) of a control plane with the key files of this test; `over` replaces some of them.
 */
function ports(over: Readonly<Record<string, string>> = {}) {
  const { log } = createMemoryLogger();
  const at = new Map(moved);
  const paths: Readonly<Record<string, string>> = CONTROL_PLANE_KEY_FILES;
  for (const [name, path] of Object.entries({ ...keyFiles, ...over })) at.set(paths[name] ?? '', path);
  const mapped = new Proxy(files, {
    get: (target, method) =>
      method === 'read'
        ? (path: string, maxBytes: number) => target.read(at.get(path) ?? path, maxBytes)
        : (Reflect.get(target, method) as unknown),
  });
  return {
    ...{ files: mapped, store: new KeyStore(mapped, KEY_PATHS), clock, log },
    ...{ clusterId: 'c0ffee', nodeName: 'n1' },
  };
}

test('etcd refuses the certificates of a removed node and admits certificates signed with its CA keys', async () => {
  const before = await readdir(directory, { recursive: true });
  expect(await probeEtcd()).toEqual([
    'etcd-client node REFUSED',
    'etcd-client kubelet REFUSED',
    'etcd-client etcd-peer REFUSED',
    'etcd-client state-etcd-client REFUSED',
    'etcd-client state-etcd-peer REFUSED',
    'etcd-client etcd-client ADMITTED',
    'etcd-peer node REFUSED',
    'etcd-peer kubelet REFUSED',
    'etcd-peer etcd-client REFUSED',
    'etcd-peer state-etcd-client REFUSED',
    'etcd-peer state-etcd-peer REFUSED',
    'etcd-peer etcd-peer ADMITTED',
  ]);
  expect((await readdir(directory, { recursive: true })).length).toBe(before.length);
});

test('a removal probe for a removed worker uses no shared keys', async () => {
  expect(await probeEtcd({}, false)).toEqual([
    'etcd-client node REFUSED',
    'etcd-client kubelet REFUSED',
    'etcd-peer node REFUSED',
    'etcd-peer kubelet REFUSED',
  ]);
});

test('etcd refuses a certificate of another CA with the same name', async () => {
  const [{ clientUrls, peerUrls }] = (await running.admin.members.list({ signal })) as [Member];
  for (const [kind, urls, ca] of [
    ['etcd-client', clientUrls, 'etcd-clients-ca'],
    ['etcd-peer', peerUrls, 'etcd-peers-ca'],
  ] as const) {
    const serverCaPem = await readFile(keyFiles[`${ca}.crt`] ?? '', 'utf8');
    const address = new URL(urls[0] ?? '').host;
    const at = { address, path: '/version', serverCaPem, clusterId: 'c0ffee', clock, signal };
    const [, name = ''] = /^CN=(.*)$/m.exec(new X509Certificate(serverCaPem).subject) ?? [];
    const keyPem = generateKeyPem();
    const caPem = await createCaCertPem({ commonName: name, keyPem, nowMs: Date.now() });
    const pairs = { [ca]: { public: caPem, private: keyPem } } as Record<keyof RotatingPairs, RotatingPair>;
    const source = { nodeId: REMOVED, clusterId: 'c0ffee', accountUid: undefined, clock };
    const certificate = (await createTestCredential(kind, pairs, source)) as TestCertificate;
    const { outcome } = judgeAnswer(ENDPOINT_RULES[kind], kind, await sendCredential(at, certificate));
    expect(outcome).toBe(Outcome.REFUSED);
  }
});

describe('a probe with the credentials of a removed node, after a key rotation', () => {
  const rotate = async (phase: 'refresh' | 'done', next: RotatingPairs, previous: RotatingPairs) =>
    files.writeAtomic(rotation, encodeKeySet({ generation: 2, phase, next, previous }).reveal());
  const ofHeldKeys = (results: readonly string[]) =>
    results.filter((line) =>
      ['etcd-client etcd-client', 'etcd-peer etcd-peer'].some((at) => line.startsWith(at)),
    );
  let foreign: RotatingPairs;
  let trusted: RotatingPairs;

  beforeAll(async () => {
    foreign = await createPairs(1, Date.now());
    const pairOf = async (name: 'etcd-clients-ca' | 'etcd-peers-ca') => ({
      public: await readFile(keyFiles[`${name}.crt`] ?? '', 'utf8'),
      private: new Secret(await readFile(keyFiles[`${name}.key`] ?? '', 'utf8')),
    });
    trusted = {
      ...(await createPairs(2, Date.now())),
      'etcd-clients-ca': await pairOf('etcd-clients-ca'),
      'etcd-peers-ca': await pairOf('etcd-peers-ca'),
    };
  });
  afterAll(() => rm(rotation, { force: true }));

  test('proves that old keys are refused while current keys are admitted', async () => {
    await rotate('done', trusted, foreign);
    expect(ofHeldKeys(await probeEtcd({}, true, 1))).toEqual([
      'etcd-client etcd-client REFUSED',
      'etcd-peer etcd-peer REFUSED',
    ]);
    expect(ofHeldKeys(await probeEtcd({}, true, 2))).toEqual([
      'etcd-client etcd-client ADMITTED',
      'etcd-peer etcd-peer ADMITTED',
    ]);
  });

  test('reports that old keys are admitted while both generations are trusted', async () => {
    await rotate('refresh', foreign, trusted);
    expect(ofHeldKeys(await probeEtcd({}, true, 1))).toEqual([
      'etcd-client etcd-client ADMITTED',
      'etcd-peer etcd-peer ADMITTED',
    ]);
  });

  test('is inconclusive if current keys are refused as well', async () => {
    await rotate('refresh', foreign, trusted);
    expect(ofHeldKeys(await probeEtcd({}, true, 2))).toEqual([
      'etcd-client etcd-client INCONCLUSIVE',
      'etcd-peer etcd-peer INCONCLUSIVE',
    ]);
  });

  test('is inconclusive for keys that were replaced twice and deleted', async () => {
    await rotate('done', trusted, foreign);
    expect(ofHeldKeys(await probeEtcd({}, true, 7))).toEqual([
      'etcd-client etcd-client INCONCLUSIVE',
      'etcd-peer etcd-peer INCONCLUSIVE',
    ]);
  });
});

test('a removal probe is inconclusive if the server has no certificate of the expected CA', async () => {
  const { certFile, keyFile } = await createCa('etcd clients');
  const results = await probeEtcd({ 'etcd-clients-ca.crt': certFile, 'etcd-clients-ca.key': keyFile });
  expect(results.filter((line) => line.startsWith('etcd-client '))).toEqual([
    'etcd-client node INCONCLUSIVE',
    'etcd-client kubelet INCONCLUSIVE',
    'etcd-client etcd-peer INCONCLUSIVE',
    'etcd-client state-etcd-client INCONCLUSIVE',
    'etcd-client state-etcd-peer INCONCLUSIVE',
    'etcd-client etcd-client INCONCLUSIVE',
  ]);
});

test('a removal probe is inconclusive if the endpoint admits no valid credential', async () => {
  const { certFile, keyFile } = ENDPOINT_RULES['etcd-client'].valid;
  const valid = [certFile, keyFile].map((path) => [path, moved.get(path) ?? ''] as const);
  const foreign = await createCa('clients of another etcd');
  moved.set(certFile, foreign.certFile).set(keyFile, foreign.keyFile);
  try {
    const results = (await probeEtcd()).filter((line) => line.startsWith('etcd-client '));
    expect(results.filter((line) => !line.endsWith(' INCONCLUSIVE'))).toEqual([]);
    expect(results).toHaveLength(6);
  } finally {
    for (const [path, to] of valid) moved.set(path, to);
  }
});

test('a removal probe is inconclusive if the endpoint does not answer', async () => {
  await units.stop(KUBERNETES_ETCD.unit);
  expect(new Set(await probeStoppedEtcd())).toEqual(new Set([Outcome.INCONCLUSIVE]));
});

async function probeStoppedEtcd() {
  const url = [`https://127.0.0.1:${await findFreePort()}`];
  const member = { id: 1n, name: HERE, clientUrls: url, peerUrls: url, isLearner: false };
  const { results } = await runRemovalProbe(
    { ...ports(), etcds: etcdsWith([member]) },
    { removedNodeId: REMOVED, heldKeys: true, generation: 0n },
    signal,
  );
  return results.map(({ outcome }) => outcome);
}
