import { expect, test } from '@jest/globals';
import { create } from '@bufbuild/protobuf';
import { createHash, createPrivateKey, sign } from 'node:crypto';
import {
  certificateSha256,
  generateEd25519Key,
  joinServerStatement,
  ownershipStatement,
  signEd25519,
} from '../../internal/crypto/index.ts';
import type { DocumentBodies } from '../../internal/ownerdocument/index.ts';
import {
  createCaCertPem,
  generateKeyPem,
  KeyCertificateSigner,
  nodeLeaf,
  pubKeyDerOf,
} from '../../internal/pki/index.ts';
import { TestOwner } from '../../internal/testing/cluster/test-owner.ts';
import { ClusterIdentitySchema, type ClusterIdentity } from '../../joinservice/joinproto/gen/join_pb.js';
import { verifyCluster, type ClusterTrust } from './verify-cluster.ts';

const NOW = Date.UTC(2026, 5, 1);
const clock = { nowMs: () => NOW };
const clusterId = 'c1'.repeat(16);
const owner = new TestOwner({ clock, clusterId });
const otherKey = new TestOwner({ clock, clusterId });
const session = new Uint8Array(64).fill(7);
const node = generateEd25519Key();

const [first, second, third] = (await Promise.all(
  [1, 2, 3].map(async () => {
    const keyPem = generateKeyPem();
    const caPem = await createCaCertPem({ commonName: 'cluster', keyPem, nowMs: NOW });
    return new KeyCertificateSigner({ caPem, keyPem, nowMs: () => NOW });
  }),
)) as [KeyCertificateSigner, KeyCertificateSigner, KeyCertificateSigner];

type Ca = KeyCertificateSigner;

function generationOf(generation: number, previous: Ca, next: Ca): DocumentBodies['keys'] {
  const named = ({ caPem }: Ca) => ({
    'cluster-ca': createHash('sha256').update(`${caPem.trim()}\n`).digest('hex'),
  });
  return { generation, previous: named(previous), next: named(next) };
}

const signedSecond = owner.sign('keys', generationOf(2, first, second));
const signedThird = owner.sign('keys', generationOf(3, second, third));

/**
 * Creates the identity that a join service shows. The owner signed the first CA when the cluster was created;
 * `documents` can contain signatures over later CAs.
 */
async function identityOf(shown: {
  /** The CA that issued the certificate of the service. */
  readonly by: Ca;
  readonly trusts?: readonly Ca[];
  readonly documents?: readonly Uint8Array[];
}): Promise<ClusterIdentity> {
  const statement = ownershipStatement({ clusterId, clusterCaPem: first.caPem, epoch: 1n });
  const leaf = { clusterId, pubKeyDer: pubKeyDerOf(node), addresses: ['198.18.0.11'], isControlPlane: true };
  return create(ClusterIdentitySchema, {
    ...{ clusterId, clusterName: 'test', clusterCaPem: first.caPem, epoch: 1n, nowMs: BigInt(NOW) },
    ownerPublicKey: owner.pubKey,
    ownershipSignature: signEd25519(owner.keyPem, statement),
    nodeCertificatePem: await shown.by.issue(nodeLeaf(leaf)),
    signature: new Uint8Array(sign(undefined, joinServerStatement(session), createPrivateKey(node.reveal()))),
    currentCaPem: (shown.trusts ?? []).map(({ caPem }) => caPem).join(''),
    ownerDocuments: [...(shown.documents ?? [])],
  });
}

const none: ClusterTrust['ca'] = { trustedPem: undefined, generation: 1, floors: {} };

function trustOf(over: Partial<ClusterTrust> = {}): ClusterTrust {
  return {
    ownerKeys: [owner.pubKey],
    boundTo: undefined,
    pinned: undefined,
    ca: none,
    server: 'any',
    ...over,
  };
}

const memberOf = (generation: number, ...cas: readonly Ca[]): Partial<ClusterTrust> => ({
  boundTo: clusterId,
  ca: { trustedPem: cas.map(({ caPem }) => caPem).join(''), generation, floors: {} },
});
const provisioned = (ca: Ca, caGeneration?: number): Partial<ClusterTrust> => ({
  pinned: { id: clusterId, caSha256: certificateSha256(ca.caPem), ...(caGeneration && { caGeneration }) },
  ca: { ...none, generation: caGeneration ?? 1 },
});
const replaced = { by: second, trusts: [second], documents: [signedSecond] };

const accepted: readonly {
  readonly name: string;
  readonly shown: Parameters<typeof identityOf>[0];
  readonly trust?: Partial<ClusterTrust>;
  readonly want: readonly Ca[];
}[] = [
  { name: 'the first CA, before the first rotation', shown: { by: first }, want: [first] },
  {
    name: 'the CA that an owner has signed as the replacement of the first CA',
    shown: replaced,
    want: [second],
  },
  {
    name: 'both CAs during a rotation',
    shown: { ...replaced, by: first, trusts: [first, second] },
    want: [first, second],
  },
  {
    name: 'the next CA on a machine that was provisioned with the first CA',
    shown: replaced,
    trust: provisioned(first),
    want: [second],
  },
  {
    name: 'the next CA on a machine that was provisioned with the next CA',
    shown: replaced,
    trust: provisioned(second, 2),
    want: [second],
  },
  {
    name: 'the next CA on a member that was off during the rotation',
    shown: replaced,
    trust: memberOf(1, first),
    want: [second],
  },
  {
    name: 'a control plane that is one phase behind, on a member that keeps its trusted CAs',
    shown: { by: second, trusts: [first, second], documents: [signedSecond] },
    trust: memberOf(2, second),
    want: [second],
  },
  {
    name: 'the third CA on a member that was off during two rotations',
    shown: { by: third, trusts: [third], documents: [signedThird] },
    trust: memberOf(1, first),
    want: [third],
  },
  {
    name: 'the first CA on a member after a rotation that did not replace the cluster CA',
    shown: {
      by: first,
      trusts: [first],
      documents: [owner.sign('keys', { generation: 2, previous: {}, next: {} })],
    },
    trust: memberOf(2, first),
    want: [first],
  },
];
test.each(accepted)('verifyCluster() accepts $name', async ({ shown, trust, want }) => {
  const cluster = verifyCluster(await identityOf(shown), session, { trust: trustOf(trust), nowMs: NOW });
  expect(cluster.clusterCaPem.trim()).toBe(
    want
      .map(({ caPem }) => caPem.trim())
      .join('\n')
      .trim(),
  );
  expect(cluster.ownedCaPem).toBe(first.caPem);
});

const old = { by: first, trusts: [first], documents: [signedSecond] };
const refused: readonly {
  readonly name: string;
  readonly shown: Parameters<typeof identityOf>[0];
  readonly trust?: Partial<ClusterTrust>;
  readonly want: string;
}[] = [
  {
    name: 'a copy of the first CA with the signed next generation, on a member that trusts only the second CA',
    shown: old,
    trust: memberOf(2, second),
    want: 'joinclient-cluster-unverified',
  },
  {
    name: 'a copy of the first CA without documents, on a member that trusts only the second CA',
    shown: { by: first },
    trust: memberOf(2, second),
    want: 'joinclient-cluster-unverified',
  },
  {
    name: 'a copy of the second CA with its signed generation, on a member that trusts only the third CA',
    shown: replaced,
    trust: memberOf(3, third),
    want: 'joinclient-cluster-unverified',
  },
  {
    name: 'a copy of the first CA with the signed next generation, on a machine that was provisioned with the second CA',
    shown: old,
    trust: provisioned(second, 2),
    want: 'joinclient-ca-replaced',
  },
  {
    name: 'a copy of the first CA without documents, on a machine that was provisioned with the second CA',
    shown: { by: first },
    trust: provisioned(second, 2),
    want: 'joinclient-ca-replaced',
  },
  {
    name: 'a CA that no owner has signed',
    shown: { by: third, trusts: [third], documents: [signedSecond] },
    want: 'joinclient-cluster-unverified',
  },
  {
    name: 'a CA that another key has signed',
    shown: { by: third, trusts: [third], documents: [otherKey.sign('keys', generationOf(2, first, third))] },
    want: 'joinclient-cluster-unverified',
  },
  {
    name: 'a CA that an owner has signed for another cluster',
    shown: {
      by: third,
      trusts: [third],
      documents: [owner.sign('keys', generationOf(2, first, third), { clusterId: 'd1'.repeat(16) })],
    },
    want: 'joinclient-cluster-unverified',
  },
  {
    name: 'a document about the keys that is older than the one that the member has accepted',
    shown: replaced,
    trust: {
      boundTo: clusterId,
      ca: { trustedPem: first.caPem, generation: 1, floors: { keys: { serial: 9 } } },
    },
    want: 'joinclient-cluster-unverified',
  },
  {
    name: 'a document that was signed before the machine found an old copy of its disk',
    shown: replaced,
    trust: {
      boundTo: clusterId,
      ca: { trustedPem: first.caPem, generation: 1, floors: { signedAfterMs: 8.64e15 } },
    },
    want: 'joinclient-cluster-unverified',
  },
  {
    name: 'a document about the owners that is older than the one that the member has accepted',
    shown: replaced,
    trust: {
      boundTo: clusterId,
      ca: { trustedPem: first.caPem, generation: 1, floors: { owners: { serial: 1 } } },
    },
    want: 'joinclient-cluster-unverified',
  },
  {
    name: 'another cluster than the one in the provisioning, even if its owner has signed the CA',
    shown: replaced,
    trust: { pinned: { id: 'd1'.repeat(16), caSha256: certificateSha256(second.caPem) } },
    want: 'joinclient-not-pinned-cluster',
  },
];
test.each(refused)('verifyCluster() refuses $name', async ({ shown, trust, want }) => {
  const identity = await identityOf(shown);
  expect(() => verifyCluster(identity, session, { trust: trustOf(trust), nowMs: NOW })).toThrow(
    expect.objectContaining({ code: want }),
  );
});
