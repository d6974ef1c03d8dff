import { ownerPubKeyFromRaw } from '../../internal/attestation/ownerkey/index.ts';
import type { Clock } from '../../internal/clock/index.ts';
import { isSignedByEd25519Key, ownershipStatement } from '../../internal/crypto/index.ts';
import { absent, put, unchanged, type Condition, type KeySpace } from '../../internal/etcd/index.ts';
import { fingerprintOfKey, spkiDerOf } from '../../internal/pki/index.ts';
import { OWNERSHIP_KEY, records } from '../../internal/records/index.ts';
import type { Handlers } from '../../internal/rpc/index.ts';
import { mutationFrom, readCluster, refuseField, type Caller, type Mutations } from '../curator/index.ts';
import { PutOwnershipRequestSchema, type OperatorApi } from '../curatorproto/gen/operatorapi_pb.js';
import { OperatorApiError } from './errors.ts';

const KEY_BYTES = 32;

/** What the handlers of the ownership work with. */
export interface OwnershipHandlerParts {
  readonly etcd: KeySpace;
  readonly mutations: Mutations;
  readonly clock: Clock;
}

/** The ownership signature that joining machines verify. The first owner signs it during init; any owner may replace it later. */
export function ownershipHandlers({
  etcd,
  mutations,
  clock,
}: OwnershipHandlerParts): Pick<Handlers<typeof OperatorApi, Caller>, 'getOwnership' | 'putOwnership'> {
  return {
    getOwnership: async (_request, { signal }) => {
      const entry = await etcd.get(OWNERSHIP_KEY, { signal });
      if (entry === undefined) return {};
      const { ownerPubKey } = records.ownership.decode(entry.key, entry.value);
      return { ownerPublicKey: new Uint8Array(Buffer.from(ownerPubKey, 'base64')) };
    },
    putOwnership: async (request, { peer, signal }) => {
      const { ownerPublicKey, epoch, signature } = request;
      if (ownerPublicKey.length !== KEY_BYTES) refuseField('owner_public_key', 'expected a raw Ed25519 key');
      const spki = spkiDerOf(ownerPubKeyFromRaw(ownerPublicKey));
      const fingerprint = fingerprintOfKey(spki);
      if (peer.kind !== 'operator' || fingerprint !== peer.fingerprint)
        refuseField('owner_public_key', 'expected the key of the caller');
      const cluster = await readCluster(etcd, signal);
      if (epoch < 1n || epoch > BigInt(cluster.epoch)) refuseField('epoch', `expected 1 to ${cluster.epoch}`);
      const { clusterId, caPem: clusterCaPem } = cluster;
      if (!isSignedByEd25519Key(spki, ownershipStatement({ clusterId, clusterCaPem, epoch }), signature))
        refuseField('signature', 'not the signature of the owner over ID, CA and epoch of this cluster');
      const record = {
        ...{ version: 1 as const, epoch: Number(epoch), timeMs: clock.nowMs() },
        ownerPubKey: Buffer.from(ownerPublicKey).toString('base64'),
        signature: Buffer.from(signature).toString('base64'),
      };
      const mutation = mutationFrom(PutOwnershipRequestSchema, request, { peer, signal, subject: 'cluster' });
      await mutations.run(mutation, async () => {
        const entry = await etcd.get(OWNERSHIP_KEY, { signal });
        return {
          when: [entry === undefined ? absent(OWNERSHIP_KEY) : unchanged(entry)],
          then: [put(OWNERSHIP_KEY, records.ownership.encode(record))],
          detail: { fingerprint },
        };
      });
      return {};
    },
  };
}

/**
 * The condition that none of these keys has signed the ownership of the cluster: joining machines verify that signature, so its
 * owner must not be removed. @throws OperatorApiError `operatorapi-ownership-signer`
 */
export async function requireOtherOwnershipSigner(
  etcd: KeySpace,
  leaving: { readonly name: string; readonly fingerprints: readonly string[] },
  signal: AbortSignal,
): Promise<readonly Condition[]> {
  const entry = await etcd.get(OWNERSHIP_KEY, { signal });
  if (entry === undefined) return [];
  const { ownerPubKey } = records.ownership.decode(entry.key, entry.value);
  const signer = fingerprintOfKey(spkiDerOf(ownerPubKeyFromRaw(Buffer.from(ownerPubKey, 'base64'))));
  if (leaving.fingerprints.includes(signer))
    throw new OperatorApiError(
      'operatorapi-ownership-signer',
      `cannot remove owner ${leaving.name}: it signed the ownership of the cluster`,
    );
  return [unchanged(entry)];
}
