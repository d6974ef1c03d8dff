import { create, toBinary } from '@bufbuild/protobuf';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { generateKeyPairSync, sign } from 'node:crypto';
import type { AttestedPeer } from '../../internal/atls/index.ts';
import { lockedValue } from '../../internal/attestation/index.ts';
import { AuditLog } from '../../internal/auditlog/index.ts';
import { machineKeyStatement } from '../../internal/crypto/index.ts';
import { put } from '../../internal/etcd/index.ts';
import { generateKeyPem, nodeIdOf, spkiDerOf } from '../../internal/pki/index.ts';
import {
  ADDRESSES_PREFIX,
  CLUSTER_KEY,
  CONFIGURATION_KEY,
  records,
  SETTINGS_KEY,
  type NodeRecord,
} from '../../internal/records/index.ts';
import type { Handlers } from '../../internal/rpc/index.ts';
import { createMemoryLogger, FakeClock, MemoryEtcd, settle } from '../../internal/testing/index.ts';
import { NodeStore } from '../curator/index.ts';
import { NodeStatusSchema } from '../curatorproto/gen/curator_pb.js';
import { FakeOwner } from '../ownerdocs/fake-owner.ts';
import { IssueRejoinTicketRequestSchema, type Join } from '../joinproto/gen/join_pb.js';
import { JoinService } from './join-service.ts';

const CLUSTER_ID = '00112233445566778899aabbccddeeff';
const EK = `tpm-ek:${'e'.repeat(64)}`;
const AK = 'ab'.repeat(34);
const session = new Uint8Array(64).fill(5);
const { publicKey, privateKey } = generateKeyPairSync('ed25519');
const pubKeyDer = spkiDerOf(publicKey);
const nodeId = nodeIdOf(pubKeyDer);
const OTHER = nodeIdOf(spkiDerOf(generateKeyPairSync('ed25519').publicKey));
const ZERO = new Uint8Array(32);

const node: NodeRecord = {
  version: 1,
  nodeId,
  name: 'w1',
  pubKey: Buffer.from(pubKeyDer).toString('base64'),
  state: 'UP',
  roles: ['KubernetesWorker'],
  labels: {},
  createdMs: 0,
  admission: {
    identity: EK,
    proof: 'endorsed',
    variant: 'tpm',
    profile: 'identity',
    akName: AK,
    evidenceDigest: 'd'.repeat(64),
    policyVersion: 'p',
    decidedBy: 'operator:o',
    timeMs: 0,
  },
};
const settings = {
  version: 1 as const,
  clusterName: 'c',
  kubernetesVersion: 'v1.35.0',
  podSubnet: '10.244.0.0/16',
  serviceSubnet: '10.96.0.0/12',
  apiServerSans: [],
  bundleManifest: '{}',
};

const cluster = {
  version: 1 as const,
  clusterId: CLUSTER_ID,
  clusterName: 'c',
  epoch: 1,
  caPem: '',
  createdMs: 0,
  firstNodeId: 'n',
};

let etcd: MemoryEtcd;
let service: JoinService;
let signed: number;
let stop: AbortController;
let running: Promise<unknown>;
beforeEach(async () => {
  etcd = new MemoryEtcd();
  signed = 0;
  stop = new AbortController();
  write(records.node.key(nodeId), records.node.encode(node));
  write(SETTINGS_KEY, records.settings.encode(settings));
  write(CLUSTER_KEY, records.cluster.encode(cluster));
  configure();
  service = new JoinService({
    etcd,
    audit: new AuditLog({ etcd }),
    ownerDocs: new FakeOwner({ clock: new FakeClock() }).ownerDocs(etcd),
    signer: {
      signMember: () => Promise.reject(new Error(`signed ${++signed}`)),
      giveDiskShare: () => Promise.reject(new Error(`signed ${++signed}`)),
    },
    identity: { certPem: '', keyPem: generateKeyPem() },
    clusterCaPem: 'TRUSTED',
    clusterId: CLUSTER_ID,
    collateral: { current: {} },
    own: { nodeId: 'n', address: '192.0.2.9' },
    listNodes: async (signal) => (await new NodeStore(etcd).list(signal)).nodes,
    clock: new FakeClock(),
    log: createMemoryLogger().log,
  });
  running = service.run(stop.signal).catch((error: unknown) => error);
  await settle();
});
afterEach(async () => {
  stop.abort(new Error('the test is over'));
  await running;
});

function write(key: string, value: Uint8Array): void {
  etcd.commitNow({ when: [], then: [put(key, value)] });
}

/** The attestation settings that operators put into the configuration. */
function configure(policy: object = {}): void {
  const document = {
    version: 1,
    name: 'test',
    attestation: {
      variants: ['tpm'],
      firstContact: 'fingerprint',
      policy: {
        name: 'test',
        profile: 'identity',
        machines: 'any-proved',
        tpm: { requiredPcrs: [7], eventLog: 'optional' },
        ...policy,
      },
    },
  };
  const text = btoa(JSON.stringify(document));
  const record = { version: 1 as const, document: text, updatedMs: 1, updatedBy: 'x' };
  write(CONFIGURATION_KEY, records.configuration.encode(record));
}

/** A session whose evidence was accepted under the current policy. */
function sessionOf(pcr15 = lockedValue(ZERO, CLUSTER_ID)): AttestedPeer {
  return {
    session,
    variant: 'tpm',
    claims: { attestationKey: AK },
    machineIdentity: { kind: 'tpm-ek', id: 'e'.repeat(64), proof: 'endorsed' },
    measurements: new Map([
      ['pcr7', ZERO],
      ['pcr15', pcr15],
    ]),
    verdict: { policyVersion: service.rules().policy.version },
  } as unknown as AttestedPeer;
}

async function rejoin(peer: AttestedPeer): Promise<string> {
  const handlers = service.service.handlers as unknown as Handlers<typeof Join, AttestedPeer>;
  const signature = new Uint8Array(sign(undefined, machineKeyStatement(session), privateKey));
  const keys = {
    kubeletClientCsr: new Uint8Array(10),
    kubeletServingCsr: new Uint8Array(10),
    sealingPublicKey: new Uint8Array(10),
    signature: new Uint8Array(64),
    address: '192.0.2.1',
    evidence: [{ variant: 'snp+tpm', document: new Uint8Array(10) }],
  };
  const request = create(IssueRejoinTicketRequestSchema, {
    key: { publicKey: pubKeyDer, signature },
    address: '192.0.2.1',
    keys,
  });
  const call = { peer, signal: stop.signal, address: '192.0.2.1' };
  const error: unknown = await handlers.issueRejoinTicket(request, call).catch((cause: unknown) => cause);
  const { code, message } = error as { readonly code?: string; readonly message: string };
  return code ?? message;
}

/** A control plane on record that is off: it has no heartbeat. */
function recordControlPlane(roles: NodeRecord['roles'] = ['ConsensusMember', 'KubernetesController']): void {
  const { admission: _, ...rest } = node;
  const record = { ...rest, nodeId: OTHER, name: 'c2', roles };
  write(records.node.key(OTHER), records.node.encode(record));
}

describe('the address of a control plane that is off', () => {
  test('is refused for a worker as soon as the control plane has its first ticket', async () => {
    recordControlPlane();
    write(records.address.key('192.0.2.1'), records.address.encode({ version: 1, nodeId: OTHER }));
    expect(await rejoin(sessionOf())).toBe('join-address-taken');
    expect(signed).toBe(0);
  });

  test('is refused for a worker if only the last status of that control plane names it', async () => {
    recordControlPlane();
    const status = toBinary(NodeStatusSchema, create(NodeStatusSchema, { address: '192.0.2.1' }));
    const text = Buffer.from(status).toString('base64');
    write(records.status.key(OTHER), records.status.encode({ version: 1, status: text, updatedMs: 1 }));
    expect(await rejoin(sessionOf())).toBe('join-address-taken');
    expect(signed).toBe(0);
  });

  test('is free again for others after it was removed or demoted', async () => {
    write(records.address.key('192.0.2.1'), records.address.encode({ version: 1, nodeId: OTHER }));
    expect(await rejoin(sessionOf())).toBe('signed 1');
    recordControlPlane(['KubernetesWorker']);
    expect(await rejoin(sessionOf())).toBe('signed 2');
  });

  test('is reserved before its certificates are signed, and its previous address is free', async () => {
    const roles: NodeRecord['roles'] = ['ConsensusMember', 'KubernetesController'];
    write(records.node.key(nodeId), records.node.encode({ ...node, roles }));
    write(records.address.key('192.0.2.7'), records.address.encode({ version: 1, nodeId }));
    expect(await rejoin(sessionOf())).toBe('signed 1');
    const { entries } = await etcd.list(ADDRESSES_PREFIX, { signal: stop.signal });
    expect(entries.map(({ key }) => key)).toEqual([`${ADDRESSES_PREFIX}192.0.2.1`]);
  });

  test('is not reserved when a worker gets its ticket: workers do not reserve addresses', async () => {
    expect(await rejoin(sessionOf())).toBe('signed 1');
    expect((await etcd.list(ADDRESSES_PREFIX, { signal: stop.signal })).entries).toEqual([]);
  });
});

describe('the ticket of a long session', () => {
  test('is requested from the signer if nothing has changed', async () => {
    expect(await rejoin(sessionOf())).toBe('signed 1');
  });

  test('is refused after the policy changed, until the machine sends new evidence', async () => {
    const peer = sessionOf();
    configure({ registers: { 7: { expected: '00'.repeat(32) } } });
    await settle();
    expect(await rejoin(peer)).toBe('join-evidence-outdated');
    expect(signed).toBe(0);
    expect(await rejoin(sessionOf())).toBe('signed 1');
  });

  test('is refused if the policy now lists other machines, even with new evidence', async () => {
    configure({ machines: [`tpm-ek:${'f'.repeat(64)}`] });
    await settle();
    expect(await rejoin(sessionOf())).toBe('join-unknown-machine');
    configure({ machines: [EK] });
    await settle();
    expect(await rejoin(sessionOf())).toBe('signed 1');
  });

  test('is refused if the lock PCR in the evidence does not have the value of this cluster', async () => {
    expect(await rejoin(sessionOf(ZERO))).toBe('join-not-locked');
    expect(await rejoin(sessionOf(lockedValue(ZERO, 'ff'.repeat(16))))).toBe('join-not-locked');
    expect(signed).toBe(0);
  });
});
