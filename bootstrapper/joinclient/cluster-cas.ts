import { followedClusterCas, type KnownClusterCa } from '../../internal/keyset/index.ts';
import {
  OwnerDocumentError,
  proofFromProvisioning,
  verifyNotOlder,
  type DocumentProof,
  type Floor,
} from '../../internal/ownerdocument/index.ts';
import type { ClusterIdentity } from '../../joinservice/joinproto/gen/join_pb.js';
import { JoinClientError } from './errors.ts';

/** The cluster CA that this machine knows, and the newest owner documents that it has accepted. */
export interface KnownCa extends KnownClusterCa {
  readonly floors: {
    readonly owners?: Floor | undefined;
    readonly keys?: Floor | undefined;
    readonly signedAfterMs?: number | undefined;
  };
}

/** CAs with which a join service may prove that it belongs to the cluster: a PEM bundle. */
interface ClusterCas {
  readonly pem: string;
  /** Whether an owner has signed these CAs as replacements. One owner document names them and the other new shared keys. */
  readonly isFollowed: boolean;
}

/**
 * The cluster CAs that this machine may trust, most preferred first. A member keeps its trusted CAs as long as they
 * verify the peer, because another control plane may be one phase of a key rotation behind. Otherwise the machine
 * trusts only CAs that an owner has signed as a replacement. The CA in the owner's signature over the cluster is
 * trusted only by machines that join, and only until they know that this CA was replaced. Anybody with a copy of a
 * replaced CA's key could pose as the cluster.
 * @param identity untrusted, except for the owner's signature over `clusterCaPem`, which was verified
 * @throws JoinClientError `joinclient-ca-replaced` if there are none
 */
export function clusterCasToTry(
  { clusterId, clusterCaPem, currentCaPem, ownerDocuments }: ClusterIdentity,
  trust: {
    readonly ownerKeys: readonly [Uint8Array, ...Uint8Array[]];
    readonly known: KnownCa;
    readonly epoch: number;
    readonly nowMs: number;
  },
): readonly ClusterCas[] {
  const { known, ...provisioned } = trust;
  const present = known.trustedPem === undefined ? [] : [{ pem: known.trustedPem, isFollowed: false }];
  const proof = proofFromProvisioning('keys', ownerDocuments, { ...provisioned, clusterId });
  const followed = followedIn(currentCaPem, proof, known);
  if (followed.length > 0) return [...present, { pem: followed.join(''), isFollowed: true }];
  if (present.length > 0) return present;
  if (known.generation === 1) return [{ pem: clusterCaPem, isFollowed: false }];
  throw new JoinClientError(
    'joinclient-ca-replaced',
    `cluster ${clusterId} showed no CA of generation ${known.generation} or later that an owner has signed`,
  );
}

/**
 * The replacement CAs that an owner has signed. Empty for unsigned CAs, and for documents older than those that this
 * machine has accepted.
 */
function followedIn(currentCaPem: string, proof: DocumentProof<'keys'>, known: KnownCa): readonly string[] {
  if (proof.kind === 'unsigned') return [];
  const { owners, keys, signedAfterMs } = known.floors;
  try {
    verifyNotOlder(proof, { owners, document: keys, signedAfterMs });
  } catch (error) {
    if (error instanceof OwnerDocumentError) return [];
    throw error;
  }
  return followedClusterCas(currentCaPem, proof.document.body, known).map(({ pem }) => pem);
}
