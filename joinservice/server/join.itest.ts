import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { generateKeyPairSync, X509Certificate } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createEvidenceSocketServer, JOIN_CONTEXT } from '../../internal/atls/remote/index.ts';
import {
  decodeEnrolmentRequest,
  encodeEnrolmentRequest,
  endorsementKeyIdOf,
} from '../../internal/attestation/enrol/index.ts';
import { ChainVerifier } from '../../internal/audit/index.ts';
import { SystemClock } from '../../internal/clock/index.ts';
import {
  ed25519PubKeyFrom,
  generateEd25519Key,
  kubeconfigStatement,
  ownershipStatement,
  signEd25519,
  ticketKeysStatement,
  unseal,
} from '../../internal/crypto/index.ts';
import { Namespace, put, remove, type KeySpace } from '../../internal/etcd/index.ts';
import { DiskFiles, DiskStreams } from '../../internal/file/index.ts';
import {
  createAuthorityPem,
  createRequest,
  generateKeyPem,
  pubKeyOf,
  verifyMember,
  verifyNode,
} from '../../internal/pki/index.ts';
import {
  AUDIT_PREFIX,
  CLUSTER_PREFIX,
  CONFIGURATION_KEY,
  OWNERSHIP_KEY,
  records,
  SETTINGS_KEY,
  SLOT_QUEUE_PREFIX,
  type JoinRecord,
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
import { createClient, RpcChannel, tlsClientUpgrade, type Client } from '../../internal/rpc/index.ts';
import { incrementLockCounter, type Tpm } from '../../internal/tpm/index.ts';
import { Admission, JoinState, type AuditHead } from '../curatorproto/gen/admission_pb.js';
import { Curator, NodeState } from '../curatorproto/gen/curator_pb.js';
import { CONTROL_PLANE_KEYS, serveSigner } from '../signer/index.ts';
import { hardwareOf, TestMachine } from '../testing/index.ts';
import type { Fact } from '../joinproto/gen/join_pb.js';
import { serve } from './serve.ts';

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
let curatorEndpoint = '';
let admin: Client<typeof Admission>;
let curator: Client<typeof Curator>;
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

async function configure(
  policy: string,
  inventory: readonly unknown[] = [],
  registers: Readonly<Record<string, unknown>> = {},
): Promise<void> {
  const attestation = {
    firstContact: 'fingerprint',
    variants: ['tpm'],
    policy: {
      name: 'identity',
      profile: 'identity',
      machines: 'any-proved',
      registers,
      tpm: { requiredPcrs: [0, 4, 7], eventLog: 'optional' },
    },
  };
  const document = JSON.stringify({ version: 1, name: 'test', attestation, join: { policy, inventory } });
  const record = { version: 1 as const, document: btoa(document), updatedMs: 1, updatedBy: 'test' };
  await write(CONFIGURATION_KEY, records.configuration.encode(record));
  await clock.sleep(100, never); // until it is in force: the join service follows etcd
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
  const curating = Promise.withResolvers<number>();
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
    { signal: stop.signal, onListening: curating.resolve, onJoinListening: listening.resolve },
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
  await dialCurator(`127.0.0.1:${await curating.promise}`);
  return `127.0.0.1:${port}`;
}

async function dialCurator(at: string): Promise<void> {
  curatorEndpoint = at;
  const owner = await cluster.addOperator('owner', 'owner');
  const upgrade = tlsClientUpgrade({
    identity: owner.tls,
    accept: (certificate) => verifyNode(certificate, cluster.trust),
  });
  const channel = new RpcChannel({ endpoint: at, upgrade });
  closing.push(async () => channel[Symbol.dispose]());
  admin = createClient(Admission, channel);
  curator = createClient(Curator, channel);
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

const mutation = () => ({ mutation: { idempotencyKey: crypto.randomUUID() } });

async function approve(join: string, name: string): Promise<void> {
  await admin.decideJoin(
    { join, decision: { case: 'approve', value: { name } }, ...mutation() },
    { signal: never },
  );
}

async function nodeNames(): Promise<readonly string[]> {
  const { nodes } = await curator.listNodes({}, { signal: never });
  return nodes.map(({ name }) => name).sort();
}

/** Every refusal is in the audit, with the code that the machine was told. */
async function expectAudited(code: string, subject?: string): Promise<void> {
  await until(async () => {
    const { entries } = await space.list(AUDIT_PREFIX, { signal: never });
    const verifier = new ChainVerifier();
    return entries
      .map(({ value }) => verifier.next(value))
      .find(
        (entry) =>
          entry.detail['verdict'] === 'refused' &&
          entry.detail['code'] === code &&
          (subject === undefined || entry.subject === subject),
      );
  });
}

/** Changes a machine's request behind everybody's back. */
async function edit(nodeId: string, change: (record: JoinRecord) => JoinRecord): Promise<void> {
  const key = records.join.key(nodeId);
  const entry = await space.get(key, { signal: never });
  await write(key, records.join.encode(change(records.join.decode(key, entry?.value ?? new Uint8Array()))));
}

describe('operators', () => {
  let b: TestMachine;
  let tpm: Tpm;
  beforeAll(async () => {
    await configure('approve');
    ({ tpm } = await machine('b'));
    b = new TestMachine(hardwareOf(tpm));
  }, 60_000);

  test('see who waits, compare the fingerprint, and approve; the machine becomes what they said (row 12)', async () => {
    using session = await b.dial(endpoint);
    const admitted = session.admitted({ hostname: 'B.example.org', facts: [fact('dns', 'pass')] });
    const join = await until(async () => {
      const { joins } = await admin.listJoins({ states: [JoinState.PENDING] }, { signal: never });
      return joins.find(({ joinId }) => joinId === b.nodeId);
    });
    expect(join).toMatchObject({ hostname: 'B.example.org', identityProof: 'unproved', profile: 'identity' });
    await admin.decideJoin(
      {
        join: join.fingerprint.slice(0, 20),
        decision: { case: 'approve', value: { labels: { rack: '7' } } },
        ...mutation(),
      },
      { signal: never },
    );
    expect(await admitted).toMatchObject({ nodeName: 'b', roles: ['KubernetesWorker'] });
    const ticket = await session.ticket();
    expect(ticket).toMatchObject({ nodeName: 'b', labels: { rack: '7' } });
    expect(ticket.controlPlaneKeys).toBeUndefined();
    const trace = await admin.getTrace({ subject: 'b' }, { signal: never });
    expect(trace.facts.map(({ side, name }) => `${side} ${name}`)).toEqual(
      expect.arrayContaining(['machine dns', 'cluster clock', 'cluster evidence', 'cluster policy']),
    );
    expect(await auditOf(b.nodeId)).toMatchObject([
      { verdict: 'waiting' },
      { method: 'DecideJoin', verdict: 'approved' },
      { verdict: 'joined', by: 'operator:owner' },
    ]);
  }, 30_000);

  test('see which control plane waits for its turn, at which place and about how long', async () => {
    for (const nodeId of ['somebody-else', b.nodeId])
      await write(SLOT_QUEUE_PREFIX + nodeId, new TextEncoder().encode('{}'));
    const { joins } = await admin.listJoins({ states: [JoinState.JOINED] }, { signal: never });
    const waiting = joins.find(({ joinId }) => joinId === b.nodeId);
    expect(waiting?.turn).toMatchObject({ place: 1, estimateMs: 15_000n });
    expect(joins.filter(({ turn }) => turn !== undefined).length).toBe(1);
    const then = ['somebody-else', b.nodeId].map((nodeId) => remove(SLOT_QUEUE_PREFIX + nodeId));
    await space.commit({ when: [], then }, { signal: never });
  });

  test('refuse a machine: it learns the code, they keep the reason', async () => {
    const other = new TestMachine(hardwareOf((await machine('c')).tpm));
    using session = await other.dial(endpoint);
    const refused = session.admitted();
    refused.catch(() => undefined);
    await until(async () => space.get(records.join.key(other.nodeId), { signal: never }));
    const refusal = { case: 'refuse', value: { reason: 'not ours' } } as const;
    await admin.decideJoin({ join: other.nodeId, decision: refusal, ...mutation() }, { signal: never });
    await expect(refused).rejects.toEqual(coded('join-refused'));
    using again = await other.dial(endpoint);
    await expect(again.ticket()).rejects.toEqual(coded('join-refused'));
    expect(await nodeNames()).not.toContain('machine');
  }, 60_000);

  test('add one of them with a certificate for their own key, and never lose the last owner', async () => {
    const keyPem = generateKeyPem();
    const certificateRequest = await createRequest(keyPem, 'anything');
    const put = { name: 'eve', role: 'viewer', certificateRequest, ...mutation() };
    const added = await admin.putOperator(put, { signal: never });
    const identity = verifyMember(new X509Certificate(added.certificatePem), cluster.trust);
    expect(identity).toMatchObject({
      kind: 'operator',
      name: 'eve',
      fingerprint: added.operator?.fingerprint,
    });
    const { operators } = await admin.listOperators({}, { signal: never });
    expect(operators.map(({ name, role }) => `${name} ${role}`)).toEqual(
      expect.arrayContaining(['eve viewer', 'owner owner']),
    );
    await admin.deleteOperator({ name: 'eve', ...mutation() }, { signal: never });
    await expect(admin.deleteOperator({ name: 'owner', ...mutation() }, { signal: never })).rejects.toEqual(
      coded('admin-last-owner'),
    );
  });

  test('an owner has a kubeconfig certificate signed for a key that stays there, and by the own key only', async () => {
    const [ownKey, kubectlKey] = [generateEd25519Key(), generateKeyPem()];
    const csr = await createRequest(ownKey, 'anything');
    const put = { name: 'second', role: 'owner', certificateRequest: csr, ...mutation() };
    const { certificatePem: certPem } = await admin.putOperator(put, { signal: never });
    const upgrade = tlsClientUpgrade({
      identity: { certPem, keyPem: ownKey },
      accept: (certificate) => verifyNode(certificate, cluster.trust),
    });
    using channel = new RpcChannel({ endpoint: curatorEndpoint, upgrade });
    const own = createClient(Admission, channel);
    const certificateRequest = await createRequest(kubectlKey, 'anything');
    const statement = kubeconfigStatement({ clusterId: cluster.clusterId, certificateRequest });
    const operatorPublicKey = pubKeyOf(ownKey);
    const asked = { certificateRequest, operatorPublicKey, signature: signEd25519(ownKey, statement) };
    const { certificatePem, kubernetesCaPem } = await own.issueKubeconfig(
      { ...asked, ...mutation() },
      { signal: never },
    );
    const certificate = new X509Certificate(certificatePem);
    expect(certificate.subject.split('\n')).toEqual(['CN=second', 'O=kubeadm:cluster-admins']);
    expect(certificate.verify(new X509Certificate(kubernetesCaPem).publicKey)).toBe(true);
    expect(
      Buffer.compare(certificate.publicKey.export({ type: 'spki', format: 'der' }), pubKeyOf(kubectlKey)),
    ).toBe(0);
    // Another owner who passes it on, and one whose key signed something else.
    await expect(admin.issueKubeconfig({ ...asked, ...mutation() }, { signal: never })).rejects.toThrow();
    const signature = signEd25519(ownKey, kubeconfigStatement({ clusterId: 'another', certificateRequest }));
    await expect(
      own.issueKubeconfig({ ...asked, signature, ...mutation() }, { signal: never }),
    ).rejects.toEqual(coded('admin-signing'));
    await admin.deleteOperator({ name: 'second', ...mutation() }, { signal: never });
    await expect(own.issueKubeconfig({ ...asked, ...mutation() }, { signal: never })).rejects.toThrow();
  });

  test('read the whole chain, verify it, and go on where they stopped', async () => {
    const verifier = new ChainVerifier();
    let head: AuditHead | undefined;
    for await (const { message } of admin.listAudit({}, { signal: never })) {
      if (message.case === 'entry') verifier.next(message.value.record);
      else if (message.case === 'head') head = message.value;
    }
    if (head === undefined) throw new Error('no head');
    verifier.end({ seq: Number(head.seq), hash: head.hash });
    expect(head).toMatchObject({ clusterId: cluster.clusterId, firstSeq: 1n });
    const rest: bigint[] = [];
    for await (const { message } of admin.listAudit({ afterSeq: head.seq - 2n }, { signal: never }))
      if (message.case === 'entry') rest.push(message.value.seq);
    expect(rest).toEqual([head.seq - 1n, head.seq]);
  });

  describe('and nobody gets what is not theirs', () => {
    let strange: Tpm;
    let names: readonly string[];
    afterEach(() => configure('approve'));
    beforeAll(async () => {
      ({ tpm: strange } = await machine('d'));
      names = await nodeNames();
    }, 60_000);

    /** Refused with this code, nothing minted, and the audit has the code: under this subject, where one is given. */
    async function expectRefused(
      attempt: () => Promise<unknown>,
      want: { readonly code: string; readonly audit?: readonly [subject: string, code: string] },
    ): Promise<void> {
      await expect(attempt()).rejects.toEqual(coded(want.code));
      expect(await nodeNames()).toEqual(names);
      const [subject, code] = want.audit ?? [undefined, want.code];
      await expectAudited(code, subject);
    }

    test('a machine that is in no inventory', async () => {
      await configure('inventory');
      const d = new TestMachine(hardwareOf(strange));
      using session = await d.dial(endpoint);
      await expectRefused(() => session.admitted(), {
        code: 'join-unknown-machine',
        audit: [d.nodeId, 'join-unknown-machine'],
      });
      await expectRefused(() => session.ticket(), { code: 'join-unknown-machine' });
    });

    test('a machine that nobody vouches for, under auto', async () => {
      await configure('auto');
      const d = new TestMachine(hardwareOf(strange));
      using session = await d.dial(endpoint);
      await expectRefused(() => session.admitted(), { code: 'join-identity-unproved' });
    });

    test('a machine whose software is another', async () => {
      await configure('approve', [], { pcr7: { expected: 'ab'.repeat(32) } });
      const d = new TestMachine(hardwareOf(strange));
      using session = await d.dial(endpoint);
      await expectRefused(() => session.admitted(), {
        code: 'atls-alert-evidence-rejected',
        audit: ['address:127.0.0.1', 'attestation-register-mismatch'],
      });
    });

    test('evidence that was shown before', async () => {
      const real = hardwareOf(strange);
      const shown: Uint8Array[] = [];
      const replaying = {
        ...real,
        issuer: {
          variant: 'tpm' as const,
          issue: async (binding: Uint8Array, signal: AbortSignal) => {
            shown.push(await real.issuer.issue(binding, signal));
            return shown[0] ?? new Uint8Array();
          },
        },
      };
      const d = new TestMachine(replaying);
      using first = await d.dial(endpoint);
      await first.peer;
      using second = await d.dial(endpoint);
      await expect(second.peer).rejects.toEqual(coded('atls-alert-evidence-rejected'));
      const entry = await until(async () =>
        (await auditOf('address:127.0.0.1')).find(({ code }) => String(code).startsWith('quote-')),
      );
      expect(entry).toMatchObject({ method: 'Attest', verdict: 'refused' });
      expect(await nodeNames()).toEqual(names);
    });

    test('a machine that enrols the TPM of another one', async () => {
      const d = new TestMachine(hardwareOf(strange));
      using session = await d.dial(endpoint);
      await expectRefused(() => session.admitted({}, hardwareOf(tpm)), { code: 'join-evidence-mismatch' });
    });

    test('a machine with the AK of its own and the EK of another one', async () => {
      const d = new TestMachine(hardwareOf(strange));
      using session = await d.dial(endpoint);
      const [own, others] = [
        decodeEnrolmentRequest(await hardwareOf(strange).enrolment()),
        decodeEnrolmentRequest(await hardwareOf(tpm).enrolment()),
      ];
      const mixed = {
        ...hardwareOf(strange),
        enrolment: async () => encodeEnrolmentRequest({ ...others, attestationKey: own.attestationKey }),
        answer: async () => new Uint8Array(32),
      };
      await expectRefused(() => session.admitted({}, mixed), { code: 'enrol-answer-wrong' });
    });

    test('a member’s machine under a second key, and a member’s key on another machine', async () => {
      const second = new TestMachine(hardwareOf(tpm));
      using session = await second.dial(endpoint);
      await expectRefused(() => session.admitted(), {
        code: 'join-identity-taken',
        audit: [second.nodeId, 'join-identity-taken'],
      });
      const stolen = new TestMachine(hardwareOf(strange), b.privKey);
      using thief = await stolen.dial(endpoint);
      await expectRefused(() => thief.rejoin(), { code: 'join-identity-changed' });
      await expectRefused(() => thief.admitted(), { code: 'join-identity-changed' });
      using owner = await b.dial(endpoint);
      expect((await owner.rejoin()).nodeName).toBe('b'); // whom none of this touches
    });

    test('a taken name, a role beyond the policy’s, a wrong clock', async () => {
      const d = new TestMachine(hardwareOf(strange));
      const { endorsementKey } = decodeEnrolmentRequest(await hardwareOf(strange).enrolment());
      const identity = `tpm-ek:${endorsementKeyIdOf(endorsementKey)}`;
      using session = await d.dial(endpoint);
      await configure('inventory', [{ identity, name: 'b' }]);
      await expectRefused(() => session.admitted(), {
        code: 'join-name-taken',
        audit: [d.nodeId, 'join-name-taken'],
      });
      await configure('inventory', [{ identity, name: 'd' }]);
      const wantedRoles = ['ConsensusMember', 'KubernetesController'];
      await expectRefused(() => session.admitted({ wantedRoles }), {
        code: 'join-role-denied',
        audit: [d.nodeId, 'join-role-denied'],
      });
      const nowMs = BigInt(clock.nowMs() + 3_600_000);
      await expectRefused(() => session.admitted({ nowMs }), {
        code: 'join-clock-off',
        audit: [d.nodeId, 'join-clock-off'],
      });
      const { facts } = await admin.getTrace({ subject: d.nodeId }, { signal: never });
      expect(facts.find(({ name }) => name === 'clock')?.actual).toMatch(/^\+3(599|600) s$/);
    });

    test('a ticket by another key, after its time, or long after it was taken', async () => {
      const d = new TestMachine(hardwareOf(strange));
      using session = await d.dial(endpoint);
      const admitted = session.admitted();
      await until(async () => space.get(records.join.key(d.nodeId), { signal: never }));
      await approve(d.nodeId, 'd');
      await admitted;
      const e = new TestMachine(hardwareOf(tpm));
      using others = await e.dial(endpoint);
      await expectRefused(() => others.ticket(d.nodeId), { code: 'join-ticket-other-key' });
      const past = (record: JoinRecord): JoinRecord => ({
        ...record,
        ...(record.decision === undefined ? {} : { decision: { ...record.decision, expiresMs: 1 } }),
      });
      await edit(d.nodeId, past);
      await expectRefused(() => session.ticket(), { code: 'join-admission-expired' });
      await edit(b.nodeId, past);
      using used = await b.dial(endpoint);
      await expectRefused(() => used.ticket(), { code: 'join-ticket-used' });
    });

    test('a ticket or certificates for a machine that does not show its lock', async () => {
      const f = new TestMachine(hardwareOf((await machine('f')).tpm));
      using session = await f.dial(endpoint);
      const admitted = session.admitted();
      await until(async () => space.get(records.join.key(f.nodeId), { signal: never }));
      await approve(f.nodeId, 'f');
      await admitted;
      await expectRefused(() => session.ticketHere(), { code: 'join-not-locked' });
      expect((await session.ticket()).nodeName).toBe('f');
      names = await nodeNames();
      await expectRefused(() => session.rejoin(), { code: 'join-not-locked' });
      using locked = await f.dial(endpoint);
      expect((await locked.rejoin()).nodeName).toBe('f');
    });

    test('certificates for a member that was locked again since: wiped, and its disk put back', async () => {
      const { tpm: own } = await machine('g');
      const g = await joined(own, 'g');
      using before = await g.dial(endpoint);
      expect((await before.rejoin()).nodeName).toBe('g');
      await own.use(never, incrementLockCounter);
      using after = await g.dial(endpoint);
      await expectRefused(() => after.rejoin(), { code: 'join-locked-again' });
      await expectRefused(() => after.ticketHere(), { code: 'join-locked-again' });
    });

    test('certificates for the copy of a member, whose TPM is behind what was seen', async () => {
      const { tpm: own } = await machine('h');
      const h = await joined(own, 'h');
      const { identity } = await admissionOf(h.nodeId);
      const key = records.identity.key(identity);
      const seen = records.identity.decode(
        key,
        (await space.get(key, { signal: never }))?.value ?? new Uint8Array(),
      );
      expect(seen.sighting?.resetCount).toBeGreaterThan(0);
      // The original has been restarted twice since the copy was made.
      const sighting = seen.sighting && { ...seen.sighting, resetCount: seen.sighting.resetCount + 2 };
      await write(key, records.identity.encode({ ...seen, ...(sighting && { sighting }) }));
      using copy = await h.dial(endpoint);
      await expectRefused(() => copy.rejoin(), {
        code: 'join-machine-copied',
        audit: [identity, 'join-machine-copied'],
      });
    });

    /** A member on a TPM of its own. */
    async function joined(own: Tpm, name: string): Promise<TestMachine> {
      const made = new TestMachine(hardwareOf(own));
      using session = await made.dial(endpoint);
      const admitted = session.admitted();
      await until(async () => space.get(records.join.key(made.nodeId), { signal: never }));
      await approve(made.nodeId, name);
      await admitted;
      await session.ticket();
      names = await nodeNames();
      return made;
    }

    async function admissionOf(nodeId: string) {
      const key = records.node.key(nodeId);
      const entry = await space.get(key, { signal: never });
      const { admission } = records.node.decode(key, entry?.value ?? new Uint8Array());
      if (admission === undefined) throw new Error('nothing on record');
      return admission;
    }

    test('a kubelet that asks for the certificate of another node: it gets one in its own name, or none', async () => {
      const client = generateKeyPem();
      const csr = await createRequest(client, 'system:node:first');
      const made = {
        kubeletClientCsr: csr,
        kubeletServingCsr: csr,
        sealingPublicKey: pubKeyOf(b.sealingKeyPem),
      };
      const keys = { ...made, signature: b.sign(ticketKeysStatement({ nodeId: b.nodeId, ...made })) };
      using session = await b.dial(endpoint);
      const asked = { key: await session.keyProof(), address: '192.0.2.1', keys };
      const ticket = await session.client.issueRejoinTicket(asked, { signal: never });
      for (const pem of [ticket.kubeletClientCertificatePem, ticket.kubeletServingCertificatePem])
        expect(new X509Certificate(pem).subject).toContain('CN=system:node:b');
      const serving = new X509Certificate(ticket.kubeletServingCertificatePem);
      expect(serving.subjectAltName).toBe('DNS:b, IP Address:192.0.2.1');
      // Nor with the key of the other one, which it does not have.
      const { nodes } = await curator.listNodes({}, { signal: never });
      const others = nodes.find(({ name }) => name === 'first')?.nodeId ?? '';
      const foreign = { ...made, signature: b.sign(ticketKeysStatement({ nodeId: others, ...made })) };
      await expectRefused(
        () => session.client.issueRejoinTicket({ ...asked, keys: foreign }, { signal: never }),
        { code: 'signer-request-invalid' },
      );
      const joinId = { key: asked.key, joinId: others, keys };
      await expectRefused(() => session.client.issueJoinTicket(joinId, { signal: never }), {
        code: 'join-ticket-other-key',
      });
    });

    test('keys that the machine did not sign, and no key at all', async () => {
      using session = await b.dial(endpoint);
      const keys = await b.ticketKeys('node-of-somebody-else');
      const key = await session.keyProof();
      const address = '192.0.2.1';
      await expectRefused(() => session.client.issueRejoinTicket({ key, address, keys }, { signal: never }), {
        code: 'signer-request-invalid',
      });
      const unproved = { ...key, signature: new Uint8Array(64) };
      const good = await b.ticketKeys();
      await expectRefused(
        () => session.client.issueRejoinTicket({ key: unproved, address, keys: good }, { signal: never }),
        { code: 'join-key-unproved' },
      );
    });
  });

  test('take a node out: its machine is refused, also after it was deleted; its name is free then', async () => {
    const node = { nodeId: b.nodeId, ...mutation() };
    await curator.setNodeRoles({ ...node, roles: [] }, { signal: never });
    const out = { nodeId: b.nodeId, state: NodeState.DECOMMISSIONED, ...mutation() };
    await curator.setNodeState(out, { signal: never });
    using session = await b.dial(endpoint);
    await expect(session.rejoin()).rejects.toEqual(coded('join-decommissioned'));
    await expectAudited('join-decommissioned');
    await expect(session.admitted()).rejects.toEqual(coded('join-decommissioned'));
    const reset = new TestMachine(hardwareOf(tpm));
    using again = await reset.dial(endpoint);
    await expect(again.admitted()).rejects.toEqual(coded('join-decommissioned'));
    await curator.deleteNode({ nodeId: b.nodeId, ...mutation() }, { signal: never });
    await expect(session.rejoin()).rejects.toEqual(coded('join-not-member'));
    await expectAudited('join-not-member');
    const admitted = again.admitted();
    await until(async () => {
      const entry = await space.get(records.join.key(reset.nodeId), { signal: never });
      return entry === undefined
        ? undefined
        : records.join.decode('', entry.value).state === 'pending' || undefined;
    });
    await approve(reset.nodeId, 'b');
    expect((await admitted).nodeName).toBe('b');
    expect((await again.ticket()).nodeName).toBe('b');
  }, 30_000);
});

function fact(name: string, outcome: string) {
  return { name, outcome, expected: '', actual: '', fix: '', code: '', timeMs: 1n } as Fact;
}

async function until<T>(look: () => Promise<T | undefined>): Promise<T> {
  const deadline = AbortSignal.timeout(10_000);
  for (;;) {
    const found = await look();
    if (found !== undefined) return found;
    await clock.sleep(20, deadline);
  }
}
