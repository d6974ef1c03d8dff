import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { createPublicKey, generateKeyPairSync } from 'node:crypto';
import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { MachineKeyIssuer, proveKey } from '../../internal/attestation/machinekey/index.ts';
import { SystemClock } from '../../internal/clock/index.ts';
import type { PinnedCluster } from '../../internal/config/index.ts';
import { certificateSha256 } from '../../internal/crypto/index.ts';
import { CodedError, defineErrors, fault, retryable } from '../../internal/errors/index.ts';
import { when } from '../../internal/event/index.ts';
import { createCaCertPem, generateKeyPem, KeyCertificateSigner } from '../../internal/pki/index.ts';
import { Secret } from '../../internal/secret/index.ts';
import { findFreePort } from '../../internal/testing/network/free-port.ts';
import { createMemoryLogger } from '../../internal/testing/memory-logger.ts';
import { MemoryFiles } from '../../internal/testing/host/memory-files.ts';
import { untilAborted } from '../../internal/cleanup/index.ts';
import { MACHINE_CHECKS } from '../../joinservice/joinproto/index.ts';
import { createJoinUpgrades } from './cluster-evidence.ts';
import { knownEndpoints } from './discovery.ts';
import {
  createMachineKeys,
  FAKE_KEYS,
  FAKE_SETTINGS,
  FakeCluster,
} from '../../internal/testing/cluster/fake-cluster.ts';
import { JoinClient } from './join-client.ts';
import type { KnownCa } from './cluster-cas.ts';
import type { JoinStatus } from './join-status.ts';
import { ensureTicketKeys } from './ticket-keys.ts';

type SignedSettings = ReturnType<FakeCluster['signedSettings']>;

const clock = new SystemClock();
const refusals = defineErrors({
  'join-refused': fault.peer.refused('no', ''),
  'join-busy': retryable.system.unreachable('later', ''),
  'join-clock-off': retryable.peer.refused('clock', ''),
  'join-ticket-used': fault.peer.refused('used', ''),
});
const refused = (code: keyof typeof refusals): CodedError => new CodedError(refusals, code, 'deciding');

const unfit = new CodedError(
  defineErrors({
    'preflight-swap': retryable.operator.swap('swap', 'off'),
  }),
  'preflight-swap',
  'checking the machine',
);

let cluster: FakeCluster;
let life: AbortController;
beforeEach(async () => {
  cluster = await FakeCluster.start(clock);
  life = new AbortController();
});
afterEach(async () => {
  life.abort();
  await cluster[Symbol.asyncDispose]();
});

function createMachine(
  options: {
    ownerKey?: Uint8Array;
    endpoints?: string[];
    nowMs?: () => number;
    checkMachine?: () => Promise<void>;
    pinned?: PinnedCluster;
    proxies?: string[];
    known?: Partial<KnownCa>;
  } = {},
) {
  const keys = createMachineKeys();
  const files = new MemoryFiles();
  const privKey = new Secret(keys.privateKey);
  const machineClock = Object.assign(new SystemClock(), { nowMs: options.nowMs ?? (() => clock.nowMs()) });
  const endpoints = options.endpoints ?? [cluster.endpoint];
  const client = new JoinClient(
    {
      clock: machineClock,
      log: createMemoryLogger().log,
      random: () => 0,
      lookUp: () => Promise.resolve(['127.0.0.1']),
      evidence: {
        proveKey: (label, session) => proveKey(label, session, privKey),
        readEnrolment: () => Promise.resolve(undefined),
        answerChallenge: () => Promise.reject(new Error('no TPM')),
      },
      checkMachine: options.checkMachine ?? (() => Promise.resolve()),
      upgrade: createJoinUpgrades({
        issuers: [new MachineKeyIssuer({ privKey })],
        attestation: undefined,
        collateral: () => Promise.resolve({}),
        clock,
      }),
      keys: () =>
        ensureTicketKeys(files, {
          at: { clientKey: '/keys/client.key', servingKey: '/keys/serving.key' },
          nodeId: keys.nodeId,
          machineKeyPem: keys.keyPem,
          evidence: {
            forTicket: () => Promise.resolve([]),
            readEnrolment: () => Promise.resolve(undefined),
          },
        }),
    },
    {
      sources: [knownEndpoints('test', () => endpoints)],
      ownerKeys: [options.ownerKey ?? cluster.ownerKey],
      pinned: options.pinned,
      readKnownCa: () =>
        Promise.resolve({ trustedPem: undefined, generation: 1, floors: {}, ...options.known }),
      proxies: options.proxies ?? [],
      nodeId: keys.nodeId,
      pubKeyDer: keys.pubKeyDer,
      introduction: () => ({
        agentVersion: '0.1.0',
        hostname: 'w1',
        address: '127.0.0.1',
        wantedName: 'w1',
        wantedRoles: [],
      }),
      ownAddress: () => '127.0.0.1',
      keyNames: Object.keys(FAKE_KEYS),
      optionalKeyNames: ['rotation.json'],
    },
  );
  const until = (kind: JoinStatus['kind']): Promise<JoinStatus> =>
    when(client.status, (status) => status.kind === kind, life.signal);
  return { client, nodeId: keys.nodeId, endpoints, until, files };
}

/** The error code of the first attempt that failed. */
async function firstProblem(client: JoinClient): Promise<string> {
  const status = await when(
    client.status,
    (now) => now.kind === 'asking' && now.lastError !== undefined,
    life.signal,
  );
  return status.kind === 'asking' ? (status.lastError?.code ?? '') : '';
}

/** A TCP proxy in front of a join service; disposing it closes the endpoint. */
async function openEndpoint(port: number, endpoint: string): Promise<AsyncDisposable> {
  const sockets = new Set<Socket>();
  const [host = '', to] = endpoint.split(':');
  const server = createServer((socket) => {
    const through = connect({ host, port: Number(to) });
    for (const each of [socket, through]) sockets.add(each.on('error', () => undefined));
    socket.pipe(through).pipe(socket);
  });
  server.listen(port, '127.0.0.1');
  await once(server, 'listening');
  return {
    [Symbol.asyncDispose]: async () => {
      const closed = once(server, 'close');
      server.close();
      for (const socket of sockets) socket.destroy();
      await closed;
    },
  };
}

function pinOf({ clusterId, caPem }: FakeCluster): PinnedCluster {
  return { id: clusterId, caSha256: certificateSha256(caPem) };
}

describe('JoinClient', () => {
  test('is admitted, locks the node, and gets a ticket in a new session whose evidence includes the node lock', async () => {
    const { client, nodeId } = createMachine();
    using granted = await client.admit(life.signal);
    expect(granted.record).toEqual({
      clusterId: cluster.clusterId,
      joinId: nodeId,
      endpoints: [cluster.endpoint],
    });
    expect(cluster.minted.size).toBe(0);
    const ticket = await granted.requestTicket(life.signal);
    expect(ticket).toMatchObject({
      nodeId,
      nodeName: 'w1',
      roles: ['KubernetesWorker'],
      controlPlaneKeys: undefined,
    });
    expect(cluster.said).toEqual(['introduce', 'hello', 'introduce', 'join ticket']);
  });

  test('decrypts the control-plane keys in the ticket of a control plane', async () => {
    cluster.behaviour.roles = ['ConsensusMember', 'KubernetesController'];
    using granted = await createMachine().client.admit(life.signal);
    const { controlPlaneKeys } = await granted.requestTicket(life.signal);
    expect(controlPlaneKeys?.get('cluster-ca.key')?.reveal()).toBe('KEY');
  });

  const otherKey = generateKeyPairSync('ed25519').privateKey;
  const unsigned: readonly { readonly name: string; readonly settings: () => SignedSettings }[] = [
    {
      name: 'a joining machine refuses other settings than an owner signed',
      settings: () => ({
        ...cluster.signedSettings(FAKE_SETTINGS),
        settings: Buffer.from(JSON.stringify({ ...FAKE_SETTINGS, clusterName: 'other' }), 'utf8'),
      }),
    },
    {
      name: 'a joining machine refuses settings that no owner signed',
      settings: () => ({ ...cluster.signedSettings(FAKE_SETTINGS), ownerDocuments: [] }),
    },
    {
      name: 'a joining machine refuses settings that somebody else signed',
      settings: () => cluster.signedSettings(FAKE_SETTINGS, { by: otherKey }),
    },
    {
      name: 'a joining machine refuses settings that an owner signed for another cluster',
      settings: () => cluster.signedSettings(FAKE_SETTINGS, { clusterId: '0'.repeat(32) }),
    },
    {
      name: 'a joining machine refuses settings whose signature has expired',
      settings: () => cluster.signedSettings(FAKE_SETTINGS, { issuedMs: 1, endsMs: 2 }),
    },
    {
      name: 'a joining machine refuses settings with two signatures',
      settings: () => {
        const signed = cluster.signedSettings(FAKE_SETTINGS);
        return { ...signed, ownerDocuments: [...signed.ownerDocuments, ...signed.ownerDocuments] };
      },
    },
    {
      name: 'a joining machine refuses a malformed owner document',
      settings: () => ({ ...cluster.signedSettings(FAKE_SETTINGS), ownerDocuments: [new Uint8Array(9)] }),
    },
  ];
  test.each(unsigned)('$name', async ({ settings }) => {
    const { client } = createMachine();
    using granted = await client.admit(life.signal);
    cluster.behaviour.settings = settings;
    await expect(granted.requestTicket(life.signal)).rejects.toMatchObject({
      code: 'joinclient-settings-unsigned',
    });
  });

  test('a ticket contains the owner’s signature over the shared keys, verified with the owner keys in the provisioning', async () => {
    const { client } = createMachine();
    using granted = await client.admit(life.signal);
    const signedKeys = async () => (await granted.requestTicket(life.signal)).signedKeys;
    expect(await signedKeys()).toMatchObject({ kind: 'unsigned' });
    const body = { generation: 2, previous: {}, next: { 'etcd-peers-ca': 'ab'.repeat(32) } };
    cluster.behaviour.keyDocuments = [cluster.keysDocument(body, otherKey)];
    expect(await signedKeys()).toMatchObject({ kind: 'unsigned' });
    cluster.behaviour.keyDocuments = [cluster.keysDocument(body)];
    expect(await signedKeys()).toMatchObject({ kind: 'signed', document: { body } });
    // The owners document in the ticket also applies to the signature over the keys.
    cluster.behaviour.settings = () => {
      const settings = cluster.signedSettings(FAKE_SETTINGS, { by: otherKey });
      return {
        ...settings,
        ownerDocuments: [...settings.ownerDocuments, cluster.ownersDocument(createPublicKey(otherKey))],
      };
    };
    expect(await signedKeys()).toMatchObject({ kind: 'unsigned' });
    cluster.behaviour.keyDocuments = [cluster.keysDocument(body, otherKey)];
    expect(await signedKeys()).toMatchObject({ kind: 'signed', owners: { serial: 1 } });
  });

  test('a joining machine trusts an owner whom the owner in its provisioning has added', async () => {
    const next = generateKeyPairSync('ed25519');
    const { client } = createMachine();
    using granted = await client.admit(life.signal);
    cluster.behaviour.settings = () => {
      const signed = cluster.signedSettings(FAKE_SETTINGS, { by: next.privateKey });
      return {
        ...signed,
        ownerDocuments: [...signed.ownerDocuments, cluster.ownersDocument(next.publicKey)],
      };
    };
    expect((await granted.requestTicket(life.signal)).nodeName).toBe('w1');
  });

  test('a member keeps its settings, and renews its certificates with a ticket whose settings nobody signed', async () => {
    const { client } = createMachine();
    using granted = await client.admit(life.signal);
    const { clusterId, nodeCertPem } = await granted.requestTicket(life.signal);
    cluster.behaviour.settings = () => ({ ...cluster.signedSettings(FAKE_SETTINGS), ownerDocuments: [] });
    const controlPlanes = [{ nodeId: cluster.nodeId, endpoint: cluster.endpoint }];
    const member = { clusterId, nodeCertPem, controlPlanes, relays: [], roles: ['KubernetesWorker'] };
    expect((await client.rejoin(member, life.signal)).clusterId).toBe(clusterId);
  });

  test('accepts a kubelet certificate of the client CA in the ticket, and of no other CA', async () => {
    const authority = async (commonName: string): Promise<KeyCertificateSigner> => {
      const keyPem = generateKeyPem();
      const nowMs = (): number => clock.nowMs();
      return new KeyCertificateSigner({
        caPem: await createCaCertPem({ commonName, keyPem, nowMs: nowMs() }),
        keyPem,
        nowMs,
      });
    };
    const [previous, next] = [await authority('previous'), await authority('next')];
    const { client } = createMachine();
    using granted = await client.admit(life.signal);
    cluster.behaviour.kubernetesClients = { signer: next, believedPem: previous.caPem };
    await expect(granted.requestTicket(life.signal)).rejects.toMatchObject({
      code: 'joinclient-ticket-invalid',
    });
    const believedPem = `${previous.caPem}\n${next.caPem}`;
    cluster.behaviour.kubernetesClients = { signer: next, believedPem };
    const ticket = await granted.requestTicket(life.signal);
    expect(ticket.kubernetesClientsCaPem).toBe(believedPem);
    expect(ticket.kubernetesCaPem).not.toBe(next.caPem);
  });

  test('takes the taints of a ticket, and refuses a ticket with a taint that no kubelet accepts', async () => {
    const { client } = createMachine();
    using granted = await client.admit(life.signal);
    cluster.behaviour.taints = [{ key: 'dedicated', value: 'gpu', effect: 'NoStart' }];
    await expect(granted.requestTicket(life.signal)).rejects.toMatchObject({
      code: 'joinclient-ticket-invalid',
    });
    cluster.behaviour.taints = [{ key: 'dedicated', value: 'gpu', effect: 'NoSchedule' }];
    const { taints } = await granted.requestTicket(life.signal);
    expect(taints).toEqual(cluster.behaviour.taints);
  });

  test('reports a failed preflight check to the cluster, is not admitted while it fails, and continues when it passes', async () => {
    let lacks = 1;
    const { client } = createMachine({
      checkMachine: () => (lacks-- > 0 ? Promise.reject(unfit) : Promise.resolve()),
    });
    const requesting = client.admit(life.signal);
    expect(await firstProblem(client)).toBe('preflight-swap');
    expect(cluster.said).toEqual(['introduce', 'hello']);
    expect(cluster.facts).toContainEqual(
      expect.objectContaining({ name: MACHINE_CHECKS, outcome: 'fail', code: 'preflight-swap', fix: 'off' }),
    );
    using granted = await requesting;
    expect(granted.record.clusterId).toBe(cluster.clusterId);
  });

  test('a machine whose node lock names its cluster repeats no preflight check', async () => {
    const { client, nodeId, endpoints } = createMachine({ checkMachine: () => Promise.reject(unfit) });
    const record = { clusterId: cluster.clusterId, joinId: nodeId, endpoints };
    expect((await client.requestTicket(record, life.signal)).nodeName).toBe('w1');
  });

  test('sends no facts to a cluster of another owner and keeps trying', async () => {
    const { client } = createMachine({ ownerKey: new Uint8Array(32).fill(7) });
    const requesting = client.admit(life.signal);
    expect(await firstProblem(client)).toBe('joinclient-owner-unknown');
    expect(cluster.said.every((said) => said === 'introduce')).toBe(true);
    life.abort();
    await expect(requesting).rejects.toThrow();
  });

  test('finds its cluster among endpoints that are dead or belong to another owner', async () => {
    await using rogue = await FakeCluster.start(clock);
    const { client } = createMachine({ endpoints: ['127.0.0.1:1', rogue.endpoint, cluster.endpoint] });
    using granted = await client.admit(life.signal);
    expect(granted.record.clusterId).toBe(cluster.clusterId);
    expect(rogue.said).not.toContain('hello');
  });

  test('shows in its status why it waits', async () => {
    const { promise: approved, resolve: approve } = Promise.withResolvers<void>();
    cluster.behaviour.decide = async function* (nodeId) {
      const value = {
        joinId: nodeId,
        code: 'join-awaiting-approval',
        message: 'an operator',
        fingerprint: 'sha256:1',
      };
      yield { event: { case: 'waiting', value } };
      await approved;
      yield* cluster.admitted(nodeId);
    };
    const { client, until } = createMachine();
    const admitting = client.admit(life.signal);
    expect(await until('waiting')).toMatchObject({ code: 'join-awaiting-approval', fingerprint: 'sha256:1' });
    approve();
    using _granted = await admitting;
  });

  test('a permanent refusal stops the requests until retryNow() is called', async () => {
    let answers = 0;
    cluster.behaviour.decide = async function* (nodeId) {
      answers++;
      if (answers === 1) throw refused('join-refused');
      yield* cluster.admitted(nodeId);
    };
    const { client, until } = createMachine();
    const admitting = client.admit(life.signal);
    expect(await until('refused')).toMatchObject({
      problem: { code: 'join-refused' },
      endpoint: cluster.endpoint,
    });
    expect(answers).toBe(1);
    client.retryNow();
    using _granted = await admitting;
  });

  test('a temporary refusal is retried', async () => {
    let answers = 0;
    cluster.behaviour.decide = async function* (nodeId) {
      answers++;
      if (answers < 3) throw refused('join-busy');
      yield* cluster.admitted(nodeId);
    };
    using _granted = await createMachine().client.admit(life.signal);
    expect(answers).toBe(3);
  });

  test('a join continues by itself after the join service was down', async () => {
    const port = await findFreePort();
    const { client, nodeId } = createMachine({ endpoints: [`127.0.0.1:${port}`] });
    const admitting = client.admit(life.signal);
    expect(await firstProblem(client)).toBe('rpc-unreachable');
    let proxy = await openEndpoint(port, cluster.endpoint);
    using granted = await admitting;
    await proxy[Symbol.asyncDispose]();
    await expect(granted.requestTicket(life.signal)).rejects.toThrow();
    // After a restart, an agent with the node lock on its disk requests its ticket again like this.
    const committing = client.requestTicket(granted.record, life.signal);
    expect(await firstProblem(client)).toBe('rpc-unreachable');
    proxy = await openEndpoint(port, cluster.endpoint);
    expect((await committing).nodeId).toBe(nodeId);
    await proxy[Symbol.asyncDispose]();
    expect([...cluster.minted]).toEqual([[nodeId, 1]]);
  });

  test('retryNow() makes a waiting machine use new endpoints', async () => {
    await using other = await FakeCluster.start(clock);
    other.behaviour.decide = async function* (nodeId, signal) {
      yield { event: { case: 'waiting', value: { joinId: nodeId, code: 'join-awaiting-approval' } } };
      await untilAborted(signal);
    };
    const { client, endpoints, until } = createMachine({
      endpoints: [other.endpoint],
      ownerKey: other.ownerKey,
    });
    const admitting = client.admit(life.signal);
    await until('waiting');
    other.behaviour.decide = (nodeId) => other.admitted(nodeId);
    endpoints.unshift('127.0.0.1:1');
    client.retryNow();
    using granted = await admitting;
    expect(granted.record.clusterId).toBe(other.clusterId);
  });

  test('requests the same ticket again when the response was lost: the same keys, one membership', async () => {
    let isLost = true;
    cluster.behaviour.onTicket = () => {
      if (!isLost) return Promise.resolve();
      isLost = false;
      return Promise.reject(refused('join-busy'));
    };
    const { client, nodeId } = createMachine();
    const record = { clusterId: cluster.clusterId, joinId: nodeId, endpoints: [cluster.endpoint] };
    expect((await client.requestTicket(record, life.signal)).nodeId).toBe(nodeId);
    expect([...cluster.minted.keys()]).toEqual([nodeId]);
  });

  test('requests a new ticket with its node certificate if its first ticket was already used', async () => {
    let isFirst = true;
    cluster.behaviour.onTicket = () => {
      if (!isFirst) return Promise.resolve();
      isFirst = false;
      return Promise.reject(refused('join-ticket-used'));
    };
    const { client, nodeId } = createMachine();
    const record = { clusterId: cluster.clusterId, joinId: nodeId, endpoints: [] };
    expect((await client.requestTicket(record, life.signal)).nodeId).toBe(nodeId);
    expect(cluster.said.slice(-2)).toEqual(['join ticket', 'rejoin ticket']);
  });

  test('through a relay it trusts only a control plane, because a worker could answer with its own certificate', async () => {
    const { client, nodeId } = createMachine();
    const through = {
      clusterId: cluster.clusterId,
      controlPlanes: [],
      relays: [cluster.endpoint],
      roles: [],
      nodeCertPem: '',
    };
    expect((await client.rejoin(through, life.signal)).nodeId).toBe(nodeId);
    cluster.behaviour.isControlPlane = false;
    const asked = cluster.said.length;
    const requesting = client.rejoin(through, life.signal);
    expect(await firstProblem(client)).toBe('joinclient-cluster-unverified');
    expect(cluster.said.slice(asked)).not.toContain('rejoin ticket');
    life.abort();
    await expect(requesting).rejects.toThrow();
  });

  test('a member accepts at an endpoint only the node that its cluster listed there, or a control plane', async () => {
    const { client, nodeId } = createMachine();
    const at = (named: string) => ({
      ...{ clusterId: cluster.clusterId, relays: [], roles: [], nodeCertPem: '' },
      controlPlanes: [{ nodeId: named, endpoint: cluster.endpoint }],
    });
    expect((await client.rejoin(at('node-of-somebody-else'), life.signal)).nodeId).toBe(nodeId);
    cluster.behaviour.isControlPlane = false;
    expect((await client.rejoin(at(cluster.nodeId), life.signal)).nodeId).toBe(nodeId);
    const requesting = client.rejoin(at('node-of-somebody-else'), life.signal);
    expect(await firstProblem(client)).toBe('joinclient-cluster-unverified');
    life.abort();
    await expect(requesting).rejects.toThrow();
  });

  test('a machine bound to one cluster sends no facts to another cluster of the same owner', async () => {
    const { client, nodeId } = createMachine();
    const requesting = client.requestTicket(
      { clusterId: 'f'.repeat(32), joinId: nodeId, endpoints: [] },
      life.signal,
    );
    expect(await firstProblem(client)).toBe('joinclient-other-cluster');
    expect(cluster.said).not.toContain('hello');
    life.abort();
    await expect(requesting).rejects.toThrow();
  });

  const pins = [
    { name: 'with another cluster id', change: { id: 'f'.repeat(32) } },
    { name: 'with another CA', change: { caSha256: 'f'.repeat(64) } },
  ];
  test.each(pins)(
    'a machine whose provisioning names a cluster $name sends no facts to the cluster that answers',
    async ({ change }) => {
      const { client } = createMachine({ pinned: { ...pinOf(cluster), ...change } });
      const requesting = client.admit(life.signal);
      expect(await firstProblem(client)).toBe('joinclient-not-pinned-cluster');
      expect(cluster.said).not.toContain('hello');
      life.abort();
      await expect(requesting).rejects.toThrow();
    },
  );

  test('a machine provisioned for this cluster is admitted; once it is a member, the cluster in its provisioning is ignored', async () => {
    using _granted = await createMachine({ pinned: pinOf(cluster) }).client.admit(life.signal);
    const { client, nodeId } = createMachine({
      pinned: { ...pinOf(cluster), caSha256: 'f'.repeat(64) },
    });
    const member = {
      clusterId: cluster.clusterId,
      controlPlanes: [],
      relays: [],
      roles: [],
      nodeCertPem: '',
    };
    expect((await client.rejoin(member, life.signal)).nodeId).toBe(nodeId);
  });

  test('reports name lookups, network path, owner, clock and an unused proxy to the cluster', async () => {
    const [, port = ''] = cluster.endpoint.split(':');
    const { client } = createMachine({
      endpoints: [`localhost:${port}`],
      proxies: ['https_proxy=http://proxy:3128'],
    });
    using _granted = await client.admit(life.signal);
    expect(cluster.facts.map(({ name, outcome }) => `${outcome} ${name}`)).toEqual([
      'pass machine checks',
      'pass dns localhost',
      `pass path localhost:${port}`,
      `pass owner localhost:${port}`,
      'pass clock',
      'warn proxy',
    ]);
  });

  test('a machine whose clock is a year off reports that and is admitted once the clock is right', async () => {
    let offsetMs = 365 * 24 * 3600 * 1000;
    const { client } = createMachine({ nowMs: () => clock.nowMs() + offsetMs });
    const admitting = client.admit(life.signal);
    expect(await firstProblem(client)).toBe('joinclient-clock-off');
    expect(cluster.said).toContain('hello');
    offsetMs = 0;
    using _granted = await admitting;
  });

  test('a machine that is refused for its clock shows the offset in seconds, and continues once the clock is right', async () => {
    let offsetMs = -3_600_000;
    cluster.behaviour.decide = async function* (nodeId) {
      if (offsetMs !== 0) throw refused('join-clock-off');
      yield* cluster.admitted(nodeId);
    };
    const { client } = createMachine({ nowMs: () => clock.nowMs() + offsetMs });
    const admitting = client.admit(life.signal);
    expect(await firstProblem(client)).toBe('joinclient-clock-off');
    const now = client.status.peek();
    expect(now.set && JSON.stringify(now.value)).toMatch(/this machine is 3600s behind/);
    offsetMs = 0;
    using _granted = await admitting;
  });

  test('if the cluster refuses a clock that is correct, the error has the code that the cluster sent', async () => {
    cluster.behaviour.decide = async function* () {
      await Promise.resolve();
      throw refused('join-clock-off');
    };
    const { client } = createMachine();
    const requesting = client.admit(life.signal);
    expect(await firstProblem(client)).toBe('join-clock-off');
    life.abort();
    await expect(requesting).rejects.toThrow();
  });
});
