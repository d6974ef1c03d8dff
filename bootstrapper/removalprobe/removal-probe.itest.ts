import { create, toBinary } from '@bufbuild/protobuf';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { X509Certificate } from 'node:crypto';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { SystemClock } from '../../internal/clock/index.ts';
import { put, type Member } from '../../internal/etcd/index.ts';
import { DiskFiles } from '../../internal/file/index.ts';
import { encodeKeySet, createPairs, type RotatingPairs } from '../../internal/keyset/index.ts';
import { createCaCertPem, generateKeyPem, KeyCertificateSigner } from '../../internal/pki/index.ts';
import { records } from '../../internal/records/index.ts';
import { Secret } from '../../internal/secret/index.ts';
import {
  createMemoryLogger,
  findEtcdBinary,
  findFreePort,
  MemoryEtcd,
  ProcessUnits,
} from '../../internal/testing/index.ts';
import { NodeStatusSchema } from '../../joinservice/curatorproto/gen/curator_pb.js';
import { Consensus, consensusLayout, KUBERNETES_ETCD, type RunningConsensus } from '../consensus/index.ts';
import { judgeAnswer } from './endpoints.ts';
import { probeHttps } from './probe-endpoint.ts';
import { createTestCertificate } from './test-credentials.ts';
import { runRemovalProbe, type RemovalProbeFiles } from './removal-probe.ts';

const signal = new AbortController().signal;
const clock = new SystemClock();
const files = new DiskFiles();
const REMOVED = `node-${'b'.repeat(32)}`;
const HERE = `node-${'c'.repeat(32)}`;

let folder: string;
let units: ProcessUnits;
let running: RunningConsensus;
let genuineFiles: RemovalProbeFiles;
const etcd = new MemoryEtcd();

/** A real etcd with the certificates that a control plane gives it; nothing listens as API server or kubelet. */
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'cluster-impostor-'));
  units = new ProcessUnits();
  const stateDir = join(folder, 'state');
  await files.makeDirectory(stateDir);
  const commands = { run: async () => ({ exitCode: 0, stdout: '', stderr: '' }) };
  const consensus = new Consensus({ files, commands, units, clock, log: createMemoryLogger().log });
  running = await consensus.start(
    {
      etcd: KUBERNETES_ETCD,
      nodeId: HERE,
      address: '127.0.0.1',
      clusterId: 'c0ffee',
      ports: { client: await findFreePort(), peer: await findFreePort(), metrics: await findFreePort() },
      quotaBytes: 64 * 1024 * 1024,
      createsCluster: true,
      peers: [],
      etcdBinary: await findEtcdBinary(folder),
      stateDir,
    },
    signal,
  );
  const layout = consensusLayout(stateDir, 'kubernetes');
  const genuine = { certFile: layout.peer.certFile, keyFile: layout.peer.keyFile, path: '/version' };
  genuineFiles = {
    authorities: {
      'cluster-ca': await authority('cluster'),
      'etcd-clients-ca': layout.clientsCa,
      'etcd-peers-ca': layout.peersCa,
      'state-clients-ca': await authority('state clients'),
      'state-peers-ca': await authority('state peers'),
      'kubernetes-ca': await authority('kubernetes'),
      'kubernetes-clients-ca': await authority('kubernetes clients'),
      'front-proxy-ca': await authority('front-proxy-ca'),
    },
    serviceAccountKey: layout.clientsCa.keyFile,
    rotation: join(folder, 'rotation.json'),
    genuine: {
      'etcd-client': { ...layout.user('root'), path: '/version' },
      'etcd-peer': genuine,
      'state-etcd-client': genuine,
      'state-etcd-peer': genuine,
      'api-server': genuine,
      kubelet: genuine,
      curator: genuine,
    },
  };
  const status = Buffer.from(toBinary(NodeStatusSchema, create(NodeStatusSchema, { address: '127.0.0.1' })));
  const [version, nodeId] = [1 as const, HERE];
  etcd.commitNow({
    when: [],
    then: [
      put(
        records.node.key(nodeId),
        records.node.encode({
          ...{ version, nodeId, name: 'here', pubKey: '', state: 'UP', labels: {}, createdMs: 0 },
          roles: ['ConsensusMember'],
        }),
      ),
      put(
        records.status.key(nodeId),
        records.status.encode({ version, status: status.toString('base64'), updatedMs: 0 }),
      ),
      put(records.heartbeat.key(nodeId), records.heartbeat.encode({ version, sinceMs: 0 })),
    ],
  });
}, 60_000);

afterAll(async () => {
  running[Symbol.dispose]();
  await units[Symbol.asyncDispose]();
  await rm(folder, { recursive: true, force: true });
});

async function authority(name: string) {
  const at = { certFile: join(folder, `${name}.crt`), keyFile: join(folder, `${name}.key`) };
  const keyPem = generateKeyPem();
  await files.writeAtomic(at.keyFile, keyPem.reveal());
  await files.writeAtomic(
    at.certFile,
    await createCaCertPem({ commonName: name, keyPem, nowMs: Date.now() }),
  );
  return at;
}

async function tryAt(over: Partial<RemovalProbeFiles['authorities']>, heldKeys = true, generation = 0) {
  const authorities = { ...genuineFiles.authorities, ...over };
  const members = { kubernetes: await running.admin.members.list({ signal }), state: [] };
  const { log } = createMemoryLogger();
  const { results: trials } = await runRemovalProbe(
    { etcd, listMembers: async () => members, files, nowMs: () => Date.now(), log, clusterId: 'c0ffee' },
    { ...genuineFiles, authorities },
    { nodeId: REMOVED, heldKeys, generation },
    signal,
  );
  return trials
    .filter(({ endpoint: door }) => door.kind.startsWith('etcd-'))
    .map(({ endpoint: door, credential: paper, outcome }) => `${door.kind} ${paper} ${outcome}`);
}

test("a real etcd refuses a removed node's papers, and lets in what its authorities' keys make", async () => {
  const before = await readdir(folder, { recursive: true });
  expect(await tryAt({})).toEqual([
    'etcd-client node refused',
    'etcd-client kubelet refused',
    'etcd-client state-etcd-client refused',
    'etcd-client etcd-client let-in',
    'etcd-peer node refused',
    'etcd-peer kubelet refused',
    'etcd-peer etcd-client refused',
    'etcd-peer state-etcd-peer refused',
    'etcd-peer etcd-peer let-in',
  ]);
  expect((await readdir(folder, { recursive: true })).length).toBe(before.length);
});

test('a worker held no such keys: none of what they make is made', async () => {
  expect(await tryAt({}, false)).toEqual([
    'etcd-client node refused',
    'etcd-client kubelet refused',
    'etcd-peer node refused',
    'etcd-peer kubelet refused',
  ]);
});

test('what the key of another authority of the same name makes is refused', async () => {
  const [{ clientUrls, peerUrls }] = (await running.admin.members.list({ signal })) as [Member];
  const { authorities } = genuineFiles;
  for (const [kind, paper, urls, ca] of [
    ['etcd-client', 'etcd-client', clientUrls, authorities['etcd-clients-ca']],
    ['etcd-peer', 'etcd-peer', peerUrls, authorities['etcd-peers-ca']],
  ] as const) {
    const serverCaPem = await readFile(ca.certFile, 'utf8');
    const { port } = new URL(urls[0] ?? '');
    const at = { host: '127.0.0.1', port: Number(port), path: '/version', serverCaPem };
    const [, name = ''] = /^CN=(.*)$/m.exec(new X509Certificate(serverCaPem).subject) ?? [];
    const keyPem = generateKeyPem();
    const caPem = await createCaCertPem({ commonName: name, keyPem, nowMs: Date.now() });
    const forged = await createTestCertificate(
      paper,
      { nodeId: REMOVED, clusterId: 'c0ffee' },
      new KeyCertificateSigner({ caPem, keyPem, nowMs: () => Date.now() }),
    );
    expect(judgeAnswer(kind, paper, await probeHttps(at, forged, signal))).toMatchObject({
      outcome: 'refused',
    });
  }
});

describe('when keys have been replaced', () => {
  const rotate = async (phase: 'refresh' | 'done', next: RotatingPairs, previous: RotatingPairs) =>
    files.writeAtomic(genuineFiles.rotation, encodeKeySet({ generation: 2, phase, next, previous }).reveal());
  const shared = (said: readonly string[]) =>
    said.filter((line) =>
      ['etcd-client etcd-client', 'etcd-peer etcd-peer'].some((at) => line.startsWith(at)),
    );
  let foreign: RotatingPairs;
  let genuine: RotatingPairs;

  beforeAll(async () => {
    foreign = await createPairs(1, Date.now());
    const pairOf = async ({
      certFile,
      keyFile,
    }: {
      readonly certFile: string;
      readonly keyFile: string;
    }) => ({
      public: await readFile(certFile, 'utf8'),
      private: new Secret(await readFile(keyFile, 'utf8')),
    });
    const { authorities } = genuineFiles;
    genuine = {
      ...(await createPairs(2, Date.now())),
      'etcd-clients-ca': await pairOf(authorities['etcd-clients-ca']),
      'etcd-peers-ca': await pairOf(authorities['etcd-peers-ca']),
    };
  });
  afterAll(() => rm(genuineFiles.rotation, { force: true }));

  test('those of before are refused where those of now are let in', async () => {
    await rotate('done', genuine, foreign);
    expect(shared(await tryAt({}, true, 1))).toEqual([
      'etcd-client etcd-client refused',
      'etcd-peer etcd-peer refused',
    ]);
    expect(shared(await tryAt({}, true, 2))).toEqual([
      'etcd-client etcd-client let-in',
      'etcd-peer etcd-peer let-in',
    ]);
  });

  test('while both are believed those of before are let in', async () => {
    await rotate('refresh', foreign, genuine);
    expect(shared(await tryAt({}, true, 1))).toEqual([
      'etcd-client etcd-client let-in',
      'etcd-peer etcd-peer let-in',
    ]);
  });

  test('those of before that are refused prove nothing where those of now are refused as well', async () => {
    await rotate('refresh', foreign, genuine);
    expect(shared(await tryAt({}, true, 2))).toEqual([
      'etcd-client etcd-client unproved',
      'etcd-peer etcd-peer unproved',
    ]);
  });

  test('those that were replaced twice are not kept, and nothing is claimed of them', async () => {
    await rotate('done', genuine, foreign);
    expect(shared(await tryAt({}, true, 7))).toEqual([
      'etcd-client etcd-client unproved',
      'etcd-peer etcd-peer unproved',
    ]);
  });
});

test('a server that cannot show the certificate of its authority proves nothing', async () => {
  const foreign = await authority('etcd clients');
  const said = await tryAt({ 'etcd-clients-ca': foreign });
  expect(said.filter((line) => line.startsWith('etcd-client '))).toEqual([
    'etcd-client node unproved',
    'etcd-client kubelet unproved',
    'etcd-client state-etcd-client unproved',
    'etcd-client etcd-client unproved',
  ]);
});

test('a door that lets nobody in proves nothing', async () => {
  await units.stop(KUBERNETES_ETCD.unit);
  expect(new Set((await tryAtStopped()).map((line) => line.split(' ')[2]))).toEqual(new Set(['unproved']));
});

async function tryAtStopped() {
  const { log } = createMemoryLogger();
  const port = await findFreePort();
  const url = [`https://127.0.0.1:${port}`];
  const member = { id: 1n, name: HERE, clientUrls: url, peerUrls: url, isLearner: false };
  const { results: trials } = await runRemovalProbe(
    {
      etcd,
      listMembers: async () => ({ kubernetes: [member], state: [] }),
      files,
      nowMs: () => Date.now(),
      log,
      clusterId: 'c0ffee',
    },
    genuineFiles,
    { nodeId: REMOVED, heldKeys: true, generation: 0 },
    signal,
  );
  return trials.map(({ endpoint: door, credential: paper, outcome }) => `${door.kind} ${paper} ${outcome}`);
}
