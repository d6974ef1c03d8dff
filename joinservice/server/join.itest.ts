import { beforeAll, describe, expect, test } from '@jest/globals';
import { X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import {
  encodeChallenge,
  decryptWithTpm,
  type TpmEnvelope,
} from '../../internal/attestation/enrolment/index.ts';
import { unseal } from '../../internal/crypto/index.ts';
import { encodeProxyHeader } from '../../internal/endpoint/index.ts';
import { remove } from '../../internal/etcd/index.ts';
import { DISK_SHARES_FILE } from '../../internal/keyset/index.ts';
import { records, SLOT_QUEUE_PREFIX } from '../../internal/records/index.ts';
import { Secret } from '../../internal/secret/index.ts';
import { tpmHardware } from '../../internal/testing/index.ts';
import type { Tpm } from '../../internal/tpm/index.ts';
import { JoinState } from '../curatorproto/gen/operatorapi_pb.js';
import { NodeState } from '../curatorproto/gen/curator_pb.js';
import type { Fact } from '../joinproto/gen/join_pb.js';
import { CONTROL_PLANE_KEYS } from '../signer/index.ts';
import { TestMachine } from '../testing/index.ts';
import { coded, mutation, serviceOfTheseTests, until, type TestService } from './fake-service.ts';

const never = new AbortController().signal;

let service: TestService;
serviceOfTheseTests((started) => (service = started));

/** A relay that announces the address of its client to the join service. @returns its endpoint */
async function startRelay(endpoint: string, clientAddress: string) {
  const { hostname: host, port } = new URL(`tcp://${endpoint}`);
  const sockets = new Set<Socket>();
  const relay = createServer((client) => {
    const server = connect({ host, port: Number(port) });
    server.write(encodeProxyHeader(clientAddress, 50_000));
    for (const socket of [client, server]) sockets.add(socket.on('error', () => undefined));
    client.pipe(server);
    server.pipe(client);
  });
  relay.listen(0, '127.0.0.1');
  await once(relay, 'listening');
  const stop = (): void => {
    relay.close();
    for (const socket of sockets) socket.destroy();
  };
  return {
    endpoint: `127.0.0.1:${(relay.address() as { port: number }).port}`,
    [Symbol.dispose]: stop,
  };
}

describe('a machine with a TPM, real attested TLS, real etcd, a real signer', () => {
  test('a machine behind a relay that announces its address proves itself and waits for approval', async () => {
    const machine = new TestMachine(tpmHardware(await service.tpm()));
    using relay = await startRelay(service.endpoint, '203.0.113.9');
    using session = await machine.dial(relay.endpoint);
    const codes: string[] = [];
    for await (const event of session.admission()) {
      codes.push(event.case ?? '');
      if (event.case === 'waiting') break;
    }
    expect(codes).toEqual(['cluster', 'challenge', 'waiting']);
  });

  test('a machine waits for approval, gets the name that the inventory assigns, and becomes a member', async () => {
    const tpm = await service.tpm();
    const a = new TestMachine(tpmHardware(tpm));
    a.address = '192.0.2.9'; // Becomes the address of a control plane, so no other test machine may have it.
    using session = await a.dial(service.endpoint);
    const events = session.admission({ wantedName: 'fast' });
    expect((await events.next()).value).toMatchObject({
      case: 'cluster',
      value: { clusterId: service.cluster.clusterId },
    });
    expect((await events.next()).value).toMatchObject({ case: 'challenge' });
    expect((await events.next()).value).toMatchObject({
      case: 'waiting',
      value: { joinId: a.nodeId, code: 'join-awaiting-approval' },
    });
    const entry = await service.space.get(records.join.key(a.nodeId), { signal: never });
    const waiting = records.join.decode('', entry?.value ?? new Uint8Array());
    expect(waiting).toMatchObject({ state: 'pending', machine: { proof: 'unproved', variant: 'tpm' } });
    await expect(session.ticket()).rejects.toEqual(coded('join-not-admitted'));
    // The operator adds the machine to the inventory. The waiting machine gets the decision on its open
    // stream.
    await service.configure('inventory', [
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
      clusterId: service.cluster.clusterId,
      labels: { zone: 'x' },
    });
    expect(ticket.controlPlanes.length).toBe(1);
    const kubelet = new X509Certificate(ticket.kubeletServingCertificatePem);
    expect(kubelet.subject).toContain('CN=system:node:a-1');
    expect(kubelet.checkIssued(new X509Certificate(ticket.kubernetesCaPem))).toBe(true);
    const sealed = ticket.controlPlaneKeys;
    if (sealed === undefined) throw new Error('no keys');
    const context = {
      kind: 'control-plane-keys',
      clusterId: service.cluster.clusterId,
      nodeId: a.nodeId,
    } as const;
    // The inventory lists a TPM, so only that TPM can decrypt the keys that are sealed to the agent’s key.
    expect(sealed.encapsulatedKey).toHaveLength(65);
    const outer = (await unseal(sealed, a.sealingKeyPem, context)).reveal();
    const box = JSON.parse(Buffer.from(outer).toString()) as TpmEnvelope;
    const openedBy = async (chip: Tpm) =>
      decryptWithTpm(box, a.askedIn, (challenge, of) =>
        tpmHardware(chip).answer(encodeChallenge(challenge), of),
      );
    await expect(openedBy(await service.tpm())).rejects.toEqual(coded('tpm-credential-rejected'));
    const keys = JSON.parse(Buffer.from((await openedBy(tpm)).reveal()).toString()) as object;
    expect(Object.keys(keys)).toEqual([...CONTROL_PLANE_KEYS, DISK_SHARES_FILE]);
    // The machine lost the answer. It gets the same membership by repeating the call, and later by rejoining.
    expect((await session.ticket()).nodeName).toBe('a-1');
    using again = await a.dial(service.endpoint);
    expect((await again.rejoin()).nodeName).toBe('a-1');
    expect((await service.auditOf(a.nodeId)).map(({ verdict }) => verdict)).toEqual([
      'waiting',
      'admitted',
      'joined',
    ]);
  }, 60_000);
});

describe('operators', () => {
  let b: TestMachine;
  let tpm: Tpm;
  beforeAll(async () => {
    await service.configure('approve');
    tpm = await service.tpm();
    b = new TestMachine(tpmHardware(tpm));
  }, 60_000);

  test('an operator lists waiting machines, compares the fingerprint and approves; the machine becomes that node', async () => {
    using session = await b.dial(service.endpoint);
    const admitted = session.admitted({ hostname: 'B.example.org', facts: [fact('dns', 'pass')] });
    const join = await until(async () => {
      const { joins } = await service.admin.listJoins({ states: [JoinState.PENDING] }, { signal: never });
      return joins.find(({ joinId }) => joinId === b.nodeId);
    });
    expect(join).toMatchObject({ hostname: 'B.example.org', identityProof: 'unproved', profile: 'identity' });
    await service.admin.decideJoin(
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
    const trace = await service.admin.getTrace({ subject: 'b' }, { signal: never });
    expect(trace.facts.map(({ side, name }) => `${side} ${name}`)).toEqual(
      expect.arrayContaining(['machine dns', 'cluster clock', 'cluster evidence', 'cluster policy']),
    );
    expect(await service.auditOf(b.nodeId)).toMatchObject([
      { verdict: 'waiting' },
      { method: 'DecideJoin', verdict: 'approved' },
      { verdict: 'joined', by: 'operator:owner' },
    ]);
  }, 30_000);

  test('an operator sees the queue position and estimated wait of a control plane', async () => {
    for (const nodeId of ['somebody-else', b.nodeId])
      await service.write(SLOT_QUEUE_PREFIX + nodeId, new TextEncoder().encode('{}'));
    const { joins } = await service.admin.listJoins({ states: [JoinState.JOINED] }, { signal: never });
    const waiting = joins.find(({ joinId }) => joinId === b.nodeId);
    expect(waiting?.queue).toMatchObject({ position: 1, estimateMs: 15_000n });
    expect(joins.filter(({ queue }) => queue !== undefined).length).toBe(1);
    const then = ['somebody-else', b.nodeId].map((nodeId) => remove(SLOT_QUEUE_PREFIX + nodeId));
    await service.space.commit({ when: [], then }, { signal: never });
  });

  test('an operator refuses a machine, which learns the code but not the reason', async () => {
    const other = new TestMachine(tpmHardware(await service.tpm()));
    using session = await other.dial(service.endpoint);
    const refused = session.admitted();
    refused.catch(() => undefined);
    await service.asked(other.nodeId);
    const refusal = { case: 'refuse', value: { reason: 'not ours' } } as const;
    await service.admin.decideJoin(
      { join: other.nodeId, decision: refusal, ...mutation() },
      { signal: never },
    );
    await expect(refused).rejects.toEqual(coded('join-refused'));
    using again = await other.dial(service.endpoint);
    await expect(again.ticket()).rejects.toEqual(coded('join-refused'));
    expect(await service.nodeNames()).not.toContain('machine');
  }, 60_000);

  test('an operator removes a node: its machine is refused with any key until a readmission, and its name is free', async () => {
    const node = { nodeId: b.nodeId, ...mutation() };
    await service.curator.setNodeRoles({ ...node, roles: [] }, { signal: never });
    const out = { nodeId: b.nodeId, state: NodeState.DECOMMISSIONED, ...mutation() };
    await service.curator.setNodeState(out, { signal: never });
    using session = await b.dial(service.endpoint);
    await expect(session.rejoin()).rejects.toEqual(coded('join-decommissioned'));
    await service.untilAudited('join-decommissioned');
    await expect(session.admitted()).rejects.toEqual(coded('join-decommissioned'));
    const reset = new TestMachine(tpmHardware(tpm));
    using again = await reset.dial(service.endpoint);
    await expect(again.admitted()).rejects.toEqual(coded('join-decommissioned'));
    await service.curator.deleteNode({ nodeId: b.nodeId, ...mutation() }, { signal: never });
    await expect(session.rejoin()).rejects.toEqual(coded('join-not-member'));
    await service.untilAudited('join-not-member');
    await expect(again.admitted()).rejects.toEqual(coded('join-decommissioned'));
    const { removed } = await service.admin.listDocuments({}, { signal: never });
    const { identity } = removed.find((each) => each.identity.startsWith('tpm-ek:')) ?? { identity: '' };
    const documents = [service.signer.sign('readmission', { identity, removal: 1 })];
    await service.admin.putDocuments({ documents, ...mutation() }, { signal: never });
    const admitted = again.admitted();
    await until(async () => {
      const entry = await service.space.get(records.join.key(reset.nodeId), { signal: never });
      return entry === undefined
        ? undefined
        : records.join.decode('', entry.value).state === 'pending' || undefined;
    });
    await service.approve(reset.nodeId, 'b');
    expect((await admitted).nodeName).toBe('b');
    expect((await again.ticket()).nodeName).toBe('b');
  }, 30_000);
});

describe('the state disk of a member', () => {
  const uuid = '0f7a1c2e-5b8d-4c3a-9e6f-1a2b3c4d5e6f';

  test('gets its cluster share for evidence with another key than that of the node, and none once the node is removed', async () => {
    await service.configure('approve');
    const tpm = await service.tpm();
    const node = await service.joined(tpm, 'd');
    // At a start the machine key and the secret of the attestation key are on the closed disk.
    const secret = new Secret<Uint8Array>(new Uint8Array(32).fill(7));
    const closed = new TestMachine(tpmHardware(tpm, secret));
    using session = await closed.dial(service.endpoint);
    const share = await session.diskShare(uuid);
    expect(share).toMatch(/^[0-9a-f]{64}$/);
    using running = await node.dial(service.endpoint);
    expect(await running.diskShare(uuid)).toBe(share);
    await expect(session.diskShare(uuid, { uuid: uuid.replace('0f', '1f') })).rejects.toEqual(
      coded('signer-evidence-refused'),
    );
    await expect(session.diskShare('x')).rejects.toEqual(coded('join-keys-invalid'));
    const removal = { nodeId: node.nodeId, ...mutation() };
    await service.curator.setNodeRoles({ ...removal, roles: [] }, { signal: never });
    const out = { nodeId: node.nodeId, state: NodeState.DECOMMISSIONED, ...mutation() };
    await service.curator.setNodeState(out, { signal: never });
    await expect(session.diskShare(uuid)).rejects.toEqual(coded('join-share-not-member'));
    await service.untilAudited('join-share-not-member');
  }, 60_000);
});

function fact(name: string, outcome: string) {
  return { name, outcome, expected: '', actual: '', fix: '', code: '', timeMs: 1n } as Fact;
}
