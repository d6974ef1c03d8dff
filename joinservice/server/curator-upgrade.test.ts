import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { generateEd25519Key, selfSignedCertificate } from '../../internal/crypto/index.ts';
import { put } from '../../internal/etcd/index.ts';
import {
  fingerprintOfKey,
  pubKeyDerOf,
  verifyNodeCertificate,
  type MemberIdentity,
} from '../../internal/pki/index.ts';
import { INIT_RESULT_KEY, OWNERSHIP_KEY, records } from '../../internal/records/index.ts';
import type { OperatorRole } from '../../internal/role/index.ts';
import {
  createClient,
  RpcChannel,
  RpcServer,
  tlsClientUpgrade,
  type TlsIdentity,
} from '../../internal/rpc/index.ts';
import { SystemClock } from '../../internal/clock/index.ts';
import { FakeClock } from '../../internal/testing/fake-clock.ts';
import { MemoryEtcd } from '../../internal/testing/etcd/memory-etcd.ts';
import { createMemoryLogger } from '../../internal/testing/memory-logger.ts';
import { TestCluster } from '../../internal/testing/cluster/test-cluster.ts';
import { FakeOwner } from '../ownerdocs/fake-owner.ts';
import { Curator as CuratorContract } from '../curatorproto/gen/curator_pb.js';
import { Curator } from '../curator/index.ts';
import { curatorUpgrade } from './curator-upgrade.ts';

const signal = AbortSignal.timeout(30_000);
const base64 = (text: string): string => Buffer.from(text).toString('base64');

let etcd: MemoryEtcd;
let cluster: TestCluster;
let clock: FakeClock;
let port: number;
const open: (() => void | Promise<void>)[] = [];

beforeEach(async () => {
  const now = new SystemClock();
  etcd = new MemoryEtcd();
  clock = new FakeClock();
  const signer = new FakeOwner({ clock: now });
  cluster = await TestCluster.create(etcd, () => now.nowMs(), signer);
  const first = await cluster.addNode('first', { roles: ['ConsensusMember'] });
  const result = { version: 1 as const, initId: 'one', result: base64('the result') };
  const ownership = {
    version: 1 as const,
    epoch: 1,
    ownerPubKey: base64('key'),
    signature: base64('mine'),
    timeMs: 1,
  };
  await write(INIT_RESULT_KEY, records.initResult.encode(result));
  await write(OWNERSHIP_KEY, records.ownership.encode(ownership));
  const { log } = createMemoryLogger();
  const unused = () => Promise.reject(new Error('not asked'));
  const facts = { certificates: [], etcdStatus: unused, etcdMembers: unused };
  const ownerDocs = signer.ownerDocs(etcd);
  const curator = new Curator({ etcd, ownerDocs, nodeId: 'first', facts, clock: now, log });
  const server = new RpcServer<MemberIdentity>({
    clock: new SystemClock(),
    upgrade: curatorUpgrade(first.tls, cluster.trust, clock),
    services: [curator.service],
    disclose: 'chain',
    log,
  });
  port = await server.listen('127.0.0.1', 0);
  open.push(() => server[Symbol.asyncDispose]());
});
afterEach(async () => {
  for (const close of open.splice(0).reverse()) await close();
});

async function write(key: string, value: Uint8Array): Promise<void> {
  await etcd.commit({ when: [], then: [put(key, value)] }, { signal });
}

/**
 * A key and a certificate that the key signed itself. If `role` is given, the key is recorded as an operator
 * with that role.
 */
async function createBare(role?: OperatorRole): Promise<TlsIdentity> {
  const keyPem = generateEd25519Key();
  const fingerprint = fingerprintOfKey(pubKeyDerOf(keyPem));
  const record = { version: 1 as const, name: 'owner', fingerprint, role: role ?? 'owner', createdMs: 1 };
  if (role !== undefined) {
    await write(records.operator.key(fingerprint), records.operator.encode(record));
    await cluster.signOperator({ name: 'owner', fingerprint, role });
  }
  const nowMs = Date.now();
  return {
    keyPem,
    certPem: await selfSignedCertificate({ keyPem: keyPem.reveal(), commonName: 'x', nowMs }),
  };
}

function connect(identity: TlsIdentity) {
  const channel = new RpcChannel({
    endpoint: `127.0.0.1:${port}`,
    upgrade: tlsClientUpgrade({
      clock: new SystemClock(),
      identity,
      accept: (shown) => verifyNodeCertificate(shown, cluster.trust),
    }),
  });
  open.push(() => channel[Symbol.dispose]());
  return createClient(CuratorContract, channel);
}

const ask = (identity: TlsIdentity) =>
  connect(identity).getInitResult({ initId: 'one' }, { signal, timeoutMs: 5_000 });

describe('an owner without a certificate', () => {
  test('gets the result of the init and the ownership signature', async () => {
    const { result, ownershipSignature } = await ask(await createBare('owner'));
    expect([result, ownershipSignature].map((bytes) => Buffer.from(bytes).toString())).toEqual([
      'the result',
      'mine',
    ]);
  });

  test('may make only the call for the init result, and is refused every other call', async () => {
    const client = connect(await createBare('owner'));
    await expect(client.listNodes({}, { signal, timeoutMs: 5_000 })).rejects.toMatchObject({
      code: 'curator-denied',
    });
  });

  test.each([
    { name: 'a key without a record', role: undefined, code: 'curator-not-member' },
    { name: 'the key of an operator who is not an owner', role: 'operator' as const, code: 'curator-denied' },
  ])('$name is refused', async ({ role, code }) => {
    await expect(ask(await createBare(role))).rejects.toMatchObject({ code });
  });

  test('uses one of sixteen unauthenticated connections for ten seconds; member connections are not counted', async () => {
    const identity = await createBare();
    const clients = Array.from({ length: 16 }, () => connect(identity));
    const refused = { code: 'curator-not-member' };
    const getResult = (client: ReturnType<typeof connect>) =>
      client.getInitResult({ initId: 'one' }, { signal, timeoutMs: 5_000 });
    for (const client of clients) await expect(getResult(client)).rejects.toMatchObject(refused);
    const owner = await createBare('owner');
    await expect(ask(owner)).rejects.toMatchObject({ code: 'rpc-unreachable' });
    const member = await cluster.addOperator('certified', 'owner');
    expect((await ask(member.tls)).initId).toBe('one');
    expect(clock.sleeping).toBe(16);
    await clock.advance(10_000);
    // A refused client still retries and may be connected again by now.
    while (clock.sleeping >= 16) await new Promise((resolve) => setImmediate(resolve));
    expect((await ask(owner)).initId).toBe('one');
  });
});
