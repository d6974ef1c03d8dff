import { ownerPubKeyFromRaw } from '../../internal/attestation/ownerkey/index.ts';
import { ED25519_KEY_BYTES, isSignedByEd25519Key, ownershipStatement } from '../../internal/crypto/index.ts';
import type { Condition, KeySpace } from '../../internal/etcd/index.ts';
import { certificatesIn, fingerprintOfKey, spkiDerOf } from '../../internal/pki/index.ts';
import { CLUSTER_KEY, OWNERSHIP_KEY, records, type OwnershipRecord } from '../../internal/records/index.ts';
import { mutationFrom, readCluster, refuseField } from '../curator/index.ts';
import { documentForMachines, ownersForMachines } from '../ownerdocs/index.ts';
import { PutOwnershipRequestSchema } from '../curatorproto/gen/operatorapi_pb.js';
import { OperatorApiError } from './errors.ts';
import type { HandlersOf, OperatorApiParts } from './operator-api-parts.ts';

/**
 * The ownership signature that joining machines verify. The first owner signs it during init; any owner may replace
 * it later. Also returns the current cluster CA to operators who know only an earlier one.
 */
export function ownershipHandlers({
  etcd,
  mutations,
  clock,
  clusterCaPem: trustedPem,
}: Pick<OperatorApiParts, 'etcd' | 'mutations' | 'clock' | 'clusterCaPem'>): HandlersOf<
  'getClusterCa' | 'getOwnership' | 'putOwnership'
> {
  return {
    getClusterCa: async (_request, { signal }) => {
      const [owners, keys] = await Promise.all([
        ownersForMachines(etcd, signal),
        documentForMachines(etcd, 'keys', signal),
      ]);
      return { clusterCaPem: trustedPem, ownerDocuments: [...owners, ...keys] };
    },
    getOwnership: async (_request, { signal }) => {
      const { record } = await records.ownership.read(etcd, OWNERSHIP_KEY, signal);
      return record === undefined ? {} : { ownerPublicKey: ownerKeyOf(record) };
    },
    putOwnership: async (request, call) => {
      const { peer, signal } = call;
      const { ownerPublicKey, epoch, signature } = request;
      if (ownerPublicKey.length !== ED25519_KEY_BYTES)
        refuseField('owner_public_key', 'expected a raw Ed25519 key');
      const spki = spkiDerOf(ownerPubKeyFromRaw(ownerPublicKey));
      const fingerprint = fingerprintOfKey(spki);
      if (peer.kind !== 'operator' || fingerprint !== peer.fingerprint)
        refuseField('owner_public_key', 'expected the key of the caller');
      const cluster = await readCluster(etcd, signal);
      if (epoch < 1n || epoch > BigInt(cluster.epoch)) refuseField('epoch', `expected 1 to ${cluster.epoch}`);
      const { clusterId } = cluster;
      // An owner signs the CA that the owner's workspace trusts. This CA may have replaced the CA on record.
      const caPem = [cluster.caPem, ...certificatesIn(trustedPem)].find((clusterCaPem) =>
        isSignedByEd25519Key(spki, ownershipStatement({ clusterId, clusterCaPem, epoch }), signature),
      );
      if (caPem === undefined)
        refuseField('signature', 'not the signature of the owner over ID, CA and epoch of this cluster');
      const record = {
        ...{ version: 1 as const, epoch: Number(epoch), timeMs: clock.nowMs() },
        ownerPubKey: Buffer.from(ownerPublicKey).toString('base64'),
        signature: Buffer.from(signature).toString('base64'),
      };
      const mutation = mutationFrom(PutOwnershipRequestSchema, request, { ...call, subject: 'cluster' });
      await mutations.run(mutation, async () => ({
        when: [
          (await records.ownership.read(etcd, OWNERSHIP_KEY, signal)).unchanged,
          (await records.cluster.read(etcd, CLUSTER_KEY, signal)).unchanged,
        ],
        then: [
          records.ownership.put(OWNERSHIP_KEY, record),
          ...(caPem === cluster.caPem ? [] : [records.cluster.put(CLUSTER_KEY, { ...cluster, caPem })]),
        ],
        detail: { fingerprint },
      }));
      return {};
    },
  };
}

/**
 * The condition that none of these keys has signed the ownership of the cluster: joining machines verify that
 * signature, so its owner must not be removed.
 * @throws OperatorApiError `operatorapi-ownership-signer`
 */
export async function requireOtherOwnershipSigner(
  etcd: KeySpace,
  leaving: { readonly name: string; readonly fingerprints: readonly string[] },
  signal: AbortSignal,
): Promise<readonly Condition[]> {
  const { record, unchanged } = await records.ownership.read(etcd, OWNERSHIP_KEY, signal);
  if (record === undefined) return [];
  const signer = fingerprintOfKey(spkiDerOf(ownerPubKeyFromRaw(ownerKeyOf(record))));
  if (leaving.fingerprints.includes(signer))
    throw new OperatorApiError(
      'operatorapi-ownership-signer',
      `cannot remove owner ${leaving.name}: it signed the ownership of the cluster`,
    );
  return [unchanged];
}

function ownerKeyOf({ ownerPubKey }: OwnershipRecord): Uint8Array<ArrayBuffer> {
  return new Uint8Array(Buffer.from(ownerPubKey, 'base64'));
}
