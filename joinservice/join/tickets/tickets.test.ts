import { create } from '@bufbuild/protobuf';
import { beforeEach, describe, expect, test } from '@jest/globals';
import { generateKeyPairSync, sign } from 'node:crypto';
import type { AttestedPeer } from '../../../internal/atls/index.ts';
import { machineKeyStatement } from '../../../internal/crypto/index.ts';
import { put } from '../../../internal/etcd/index.ts';
import { nodeIdOf, spkiDerOf } from '../../../internal/pki/index.ts';
import {
  records,
  type JoinRecord,
  type MachineRecord,
  type NodeRecord,
} from '../../../internal/records/index.ts';
import { FakeClock, MemoryEtcd } from '../../../internal/testing/index.ts';
import { IssueJoinTicketRequestSchema, IssueRejoinTicketRequestSchema } from '../../joinproto/gen/join_pb.js';
import { SignMemberResponseSchema } from '../../signerproto/gen/signer_pb.js';
import type { ClusterFacts } from './cluster-facts.ts';
import { isSameMachine } from '../../evidence/index.ts';
import type { MembershipCommits } from '../admission/membership-commits.ts';
import { JoinError } from '../errors.ts';
import { checkAllowed, checkPolicyCurrent } from '../machine/machine-identifier.ts';
import { ClockObservations } from '../machine/clock-observations.ts';
import { Tickets } from './tickets.ts';

const never = new AbortController().signal;
const coded = (code: string): unknown => expect.objectContaining({ code });
const session = new Uint8Array(64).fill(5);
const { publicKey, privateKey } = generateKeyPairSync('ed25519');
const pubKeyDer = spkiDerOf(publicKey);
const nodeId = nodeIdOf(pubKeyDer);
const AK = 'ab'.repeat(34);
const CHIP = `snp-chip:${'c'.repeat(64)}`;

const machine: MachineRecord = {
  identity: CHIP,
  proof: 'endorsed',
  variant: 'snp+tpm',
  profile: 'measured',
  akName: AK,
  evidenceDigest: 'd'.repeat(64),
  policyVersion: 'p',
};
const node: NodeRecord = {
  version: 1,
  nodeId,
  name: 'w1',
  pubKey: Buffer.from(pubKeyDer).toString('base64'),
  state: 'UP',
  roles: ['KubernetesWorker'],
  labels: {},
  createdMs: 0,
  admission: { ...machine, decidedBy: 'operator:o', timeMs: 0 },
};
const join: JoinRecord = {
  version: 1,
  nodeId,
  pubKey: node.pubKey,
  state: 'approved',
  machine,
  claimed: { hostname: '', address: '192.0.2.1', name: '', roles: [], agentVersion: '', clockOffsetMs: 0 },
  decision: {
    name: 'w1',
    roles: ['KubernetesWorker'],
    labels: {},
    by: 'operator:o',
    timeMs: 0,
    expiresMs: 1e15,
  },
  code: '',
  message: '',
  firstSeenMs: 0,
  lastSeenMs: 0,
  attempts: 1,
};

/** A peer with evidence that belongs to this session. */
function peerOf(over: { variant?: string; policyVersion?: string } = {}): AttestedPeer {
  const { variant = 'snp+tpm', policyVersion = 'now' } = over;
  const claims = variant === 'tpm' ? { attestationKey: AK } : { 'tpm.attestationKey': AK };
  const [kind, id] = CHIP.split(':');
  const machineIdentity = { kind, id, proof: 'endorsed' };
  return { session, variant, claims, machineIdentity, verdict: { policyVersion } } as unknown as AttestedPeer;
}

const keys = {
  kubeletClientCsr: new Uint8Array(10),
  kubeletServingCsr: new Uint8Array(10),
  sealingPublicKey: new Uint8Array(10),
  signature: new Uint8Array(64),
  address: '192.0.2.1',
  roles: ['KubernetesWorker'],
  timeMs: 1n,
  evidence: [{ variant: 'snp+tpm', document: new Uint8Array(10) }],
};
const proof = {
  publicKey: pubKeyDer,
  signature: new Uint8Array(sign(undefined, machineKeyStatement(session), privateKey)),
};

let etcd: MemoryEtcd;
let signed: string[];
let committed: number;
let allowed: 'any' | ReadonlySet<string>;
beforeEach(() => {
  etcd = new MemoryEtcd();
  signed = [];
  committed = 0;
  allowed = 'any';
  for (const [key, value] of [
    [records.node.key(nodeId), records.node.encode(node)],
    [records.join.key(nodeId), records.join.encode(join)],
  ] as const)
    etcd.commitNow({ when: [], then: [put(key, value)] });
});

function ticketsOf(): Tickets {
  const settings = {
    serviceSubnet: '10.96.0.0/12',
    podSubnet: '10.244.0.0/16',
    apiServerSans: ['203.0.113.5'],
  };
  const facts = {
    settings: () => Promise.resolve(settings),
    ownerDocuments: () => Promise.resolve({ ownerDocuments: [], keyDocuments: [] }),
    cluster: () => Promise.resolve({ clusterId: 'c', clusterName: 'c', caPem: '', epoch: 1 }),
    controlPlanes: () => Promise.resolve([]),
    nodeIdAt: () => Promise.resolve(undefined),
  } as unknown as ClusterFacts;
  return new Tickets({
    etcd,
    facts,
    commits: { commit: () => (committed++, Promise.resolve(node)) } as unknown as MembershipCommits,
    signer: {
      signMember: ({ address = '' }) => {
        signed.push(address);
        return Promise.resolve(create(SignMemberResponseSchema));
      },
    },
    clockObservations: new ClockObservations({ etcd, clock: new FakeClock() }),
    checkEvidence: ({ verdict, machineIdentity }) =>
      checkPolicyCurrent(verdict, { version: 'now' }, machineIdentity),
    checkAllowed: (identity) => void checkAllowed(identity, { machines: allowed }),
  });
}

function rejoin(peer: AttestedPeer, address = '192.0.2.1', stated = address) {
  const asked = { ...keys, address: stated };
  const request = create(IssueRejoinTicketRequestSchema, { key: proof, address, keys: asked });
  return ticketsOf().rejoin(request, peer, never);
}

function take(peer: AttestedPeer) {
  const request = create(IssueJoinTicketRequestSchema, { key: proof, joinId: nodeId, keys });
  return ticketsOf().join(request, peer, never);
}

describe('a member that rejoins', () => {
  test('gets certificates for the address in its statement, and the signer receives that statement unchanged', async () => {
    await rejoin(peerOf(), '2001:DB8:0::1');
    expect(signed).toEqual(['2001:DB8:0::1']);
  });

  test('is refused if its statement has another address, or none', async () => {
    for (const stated of ['192.0.2.2', ''])
      await expect(rejoin(peerOf(), '192.0.2.1', stated)).rejects.toEqual(coded('join-address-invalid'));
    expect(signed).toEqual([]);
  });

  test('is refused without evidence, and with too many pieces of evidence', async () => {
    const [shown] = keys.evidence;
    const all = Array.from({ length: 3 }, () => shown ?? { variant: '', document: new Uint8Array() });
    for (const evidence of [[], all]) {
      const asked = { key: proof, address: '192.0.2.1', keys: { ...keys, evidence } };
      const request = create(IssueRejoinTicketRequestSchema, asked);
      await expect(ticketsOf().rejoin(request, peerOf(), never)).rejects.toEqual(coded('join-keys-invalid'));
    }
  });

  test.each([
    { name: 'the service address of the Kubernetes API', address: '10.96.0.1' },
    { name: 'the address of the operator’s load balancer', address: '203.0.113.5' },
    { name: 'a loopback address', address: '127.0.0.1' },
  ])(
    'is refused if it requests $name as its address, because it could impersonate the API server',
    async ({ address }) => {
      await expect(rejoin(peerOf(), address)).rejects.toEqual(coded('join-address-invalid'));
      expect(signed).toEqual([]);
    },
  );

  test('is refused if its evidence lacks the processor report that certified its TPM key before', async () => {
    await expect(rejoin(peerOf({ variant: 'tpm' }))).rejects.toEqual(coded('join-identity-changed'));
    expect(signed).toEqual([]);
  });

  test('is refused if its evidence was verified with an older policy', async () => {
    await expect(rejoin(peerOf({ policyVersion: 'before' }))).rejects.toEqual(
      coded('join-evidence-outdated'),
    );
    expect(signed).toEqual([]);
  });

  test('is refused after the policy was changed to list other machines', async () => {
    allowed = new Set(['snp-chip:other']);
    await expect(rejoin(peerOf())).rejects.toEqual(coded('join-unknown-machine'));
    allowed = new Set([CHIP]);
    await rejoin(peerOf());
    expect(signed).toHaveLength(1);
  });
});

describe('an admitted machine', () => {
  test('becomes a member', async () => {
    await take(peerOf());
    expect([committed, signed]).toEqual([1, ['192.0.2.1']]);
  });

  test.each([
    {
      name: 'its evidence was verified with an older policy',
      peer: peerOf({ policyVersion: 'before' }),
      code: 'join-evidence-outdated',
    },
    {
      name: 'the policy was changed to list other machines',
      names: ['x'],
      peer: peerOf(),
      code: 'join-unknown-machine',
    },
    {
      name: 'the machine requested a service address',
      claims: '10.96.0.10',
      peer: peerOf(),
      code: 'join-address-invalid',
    },
  ])('is refused if $name, and nothing is signed', async ({ peer, code, names, claims }) => {
    if (names !== undefined) allowed = new Set(names);
    if (claims !== undefined) {
      const value = records.join.encode({ ...join, claimed: { ...join.claimed, address: claims } });
      etcd.commitNow({ when: [], then: [put(records.join.key(nodeId), value)] });
    }
    const refused: unknown = await take(peer).catch((error: unknown) => error);
    expect(refused).toBeInstanceOf(JoinError);
    expect(refused).toEqual(coded(code));
    expect([committed, signed]).toEqual([0, []]);
  });
});

test.each([
  { name: 'evidence of the recorded machine', shows: {}, want: true },
  { name: 'evidence with another attestation key', shows: { akName: 'cd' }, want: false },
  { name: 'evidence without an attestation key', shows: { akName: undefined }, want: false },
  {
    name: 'evidence of the same TPM without the report of its processor',
    shows: { variant: 'tpm' },
    want: false,
  },
])('isSameMachine() is $want for $name', ({ shows, want }) => {
  const evidence = { akName: AK, identity: CHIP, variant: 'snp+tpm', ...shows };
  expect(isSameMachine(machine, evidence)).toBe(want);
});
