import { X509Certificate } from 'node:crypto';
import { CLOCK_TOLERANCE_MS } from '../../internal/clock/index.ts';
import type { PinnedCluster } from '../../internal/config/index.ts';
import {
  certificateSha256,
  isSignedByEd25519Key,
  isSignedByRawEd25519Key,
  joinServerStatement,
  ownershipStatement,
} from '../../internal/crypto/index.ts';
import {
  MAX_PEM_BYTES,
  spkiDerOf,
  verifyControlPlaneCertificate,
  verifyCuratorCertificate,
} from '../../internal/pki/index.ts';
import type { ClusterIdentity } from '../../joinservice/joinproto/gen/join_pb.js';
import { clusterCasToTry, type KnownCa } from './cluster-cas.ts';
import { JoinClientError } from './errors.ts';

const MAX_NAME = 253;
const CLUSTER_ID = /^[0-9a-f]{32}$/;

/** A cluster that has proved that it belongs to an owner of this machine, with the node at the other end. */
export interface VerifiedCluster {
  readonly clusterId: string;
  readonly clusterName: string;
  /**
   * The cluster CAs that this machine trusts, as a PEM bundle. A member keeps its trusted CAs unless they were
   * replaced.
   */
  readonly clusterCaPem: string;
  /** All CAs of the cluster that this machine may trust now: during a rotation, control planes sign with one or the other. */
  readonly acceptedCaPem: string;
  /**
   * The CA in the owner's signature over the cluster. It is no longer the current CA after a rotation of the shared
   * keys has replaced it.
   */
  readonly ownedCaPem: string;
  readonly epoch: number;
  /** The node at the other end. */
  readonly serverId: string;
  /** Clock of this machine minus clock of the cluster. */
  readonly clockOffsetMs: number;
}

/** The clusters and the nodes that this machine accepts. */
export interface ClusterTrust {
  /** Raw Ed25519 keys that this machine was provisioned with. */
  readonly ownerKeys: readonly [Uint8Array, ...Uint8Array[]];
  /** The cluster to which this machine is bound; undefined before the machine is bound. */
  readonly boundTo: string | undefined;
  /** The cluster for which the machine was provisioned, if its provisioning names one of the owners' clusters. */
  readonly pinned: PinnedCluster | undefined;
  readonly ca: KnownCa;
  /**
   * The nodes that may respond. For a member: a node that the list of control planes names at this endpoint, or any node
   * with the certificate of a control plane. No other worker may respond, because a ticket decides which CAs
   * a member trusts. A joining machine accepts any node, because only the cluster CA can issue the node's
   * certificate.
   */
  readonly server: 'any' | { readonly nodeIds: readonly string[] };
}

/**
 * Verifies that the other end of a session is a node of the owner's cluster. Attestation proves which
 * software runs there, but not which cluster it belongs to. Three signatures prove that: the owner signed
 * {cluster id, CA, epoch}, the CA signed the node's certificate, and the node's key signed this session. Once
 * the CA was replaced, the owner's signature over the shared keys counts (`clusterCasToTry()`). All
 * of `identity` comes from the peer. Dates are checked with this machine's clock or, if that fails, with the
 * cluster's clock, so that a machine with a wrong clock can report that to its cluster. No machine is
 * admitted before its clock is right (`checkClock`).
 */
export function verifyCluster(
  identity: ClusterIdentity,
  session: Uint8Array,
  options: { readonly trust: ClusterTrust; readonly nowMs: number },
): VerifiedCluster {
  const { clusterId, clusterName, clusterCaPem: ownedCaPem, nodeCertificatePem } = identity;
  const isSized =
    CLUSTER_ID.test(clusterId) &&
    clusterName.length <= MAX_NAME &&
    ownedCaPem.length <= MAX_PEM_BYTES &&
    identity.currentCaPem.length <= 2 * MAX_PEM_BYTES &&
    nodeCertificatePem.length <= MAX_PEM_BYTES;
  if (!isSized) throw unproved(clusterId, 'its statement of identity is malformed');
  const { trust, nowMs } = options;
  const epoch = Number(identity.epoch);
  if (!Number.isSafeInteger(epoch) || epoch < 1) throw unproved(clusterId, 'invalid epoch');
  verifyOwner(identity, trust);
  if (trust.boundTo !== undefined && trust.boundTo !== clusterId)
    throw new JoinClientError(
      'joinclient-other-cluster',
      `cluster ${clusterId} responded, but this machine is locked to ${trust.boundTo}`,
    );
  const serverNowMs = Number(identity.nowMs);
  const cas = clusterCasToTry(identity, { ownerKeys: trust.ownerKeys, known: trust.ca, epoch, nowMs });
  // For a member, only the recorded cluster id counts: the cluster in its provisioning may be outdated.
  if (trust.boundTo === undefined && trust.pinned !== undefined)
    verifyPin(identity, trust.pinned, { isFollowed: cas.some(({ isFollowed }) => isFollowed) });
  const { nodeId, pubKeyDer, clusterCaPem } = verifyServer(identity, trust, {
    cas: cas.map(({ pem }) => pem),
    timesMs: [nowMs, serverNowMs],
  });
  if (!isSignedByEd25519Key(pubKeyDer, joinServerStatement(session), identity.signature))
    throw unproved(clusterId, `invalid session signature of ${nodeId}`);
  const clockOffsetMs = nowMs - serverNowMs;
  const acceptedCaPem = cas.map(({ pem }) => pem).join('\n');
  return {
    ...{ clusterId, clusterName, clusterCaPem, acceptedCaPem, ownedCaPem, epoch },
    ...{ serverId: nodeId, clockOffsetMs },
  };
}

/** @throws JoinClientError `joinclient-clock-off`, with the seconds */
export function checkClock({ clockOffsetMs, serverId }: VerifiedCluster): void {
  if (Math.abs(clockOffsetMs) <= CLOCK_TOLERANCE_MS) return;
  const seconds = Math.round(clockOffsetMs / 1000);
  throw new JoinClientError(
    'joinclient-clock-off',
    `clock of this machine is ${Math.abs(seconds)}s ${seconds > 0 ? 'ahead of' : 'behind'} ${serverId}`,
    { details: { offsetSeconds: seconds } },
  );
}

function verifyOwner(identity: ClusterIdentity, { ownerKeys }: ClusterTrust): void {
  const { clusterId, clusterCaPem, epoch, ownerPublicKey, ownershipSignature } = identity;
  const raw = ownerKeys.find((key) => Buffer.compare(key, ownerPublicKey) === 0);
  if (raw === undefined)
    throw new JoinClientError(
      'joinclient-owner-unknown',
      `cluster ${clusterId} has unknown owner ${Buffer.from(ownerPublicKey).toString('base64').slice(0, 64)}`,
    );
  let isSigned: boolean;
  try {
    const statement = ownershipStatement({ clusterId, clusterCaPem, epoch });
    isSigned = isSignedByRawEd25519Key(raw, statement, ownershipSignature);
  } catch (error) {
    throw unproved(clusterId, 'invalid CA', error);
  }
  if (!isSigned) throw unproved(clusterId, 'invalid owner signature');
}

/**
 * Verifies that the cluster is the one that the provisioning names. The owner's signature was verified before, so the
 * CA is not from an untrusted peer. A CA that the provisioning does not name must be the replacement that an owner has
 * signed (`isFollowed`).
 */
function verifyPin(
  { clusterId, clusterCaPem }: ClusterIdentity,
  pinned: PinnedCluster,
  { isFollowed }: { readonly isFollowed: boolean },
): void {
  const differs =
    pinned.id !== clusterId
      ? `cluster ${clusterId} responded, but this machine is provisioned for ${pinned.id}`
      : !isFollowed && pinned.caSha256 !== certificateSha256(clusterCaPem)
        ? `CA of cluster ${clusterId} differs from the provisioned one`
        : undefined;
  if (differs !== undefined) throw new JoinClientError('joinclient-not-pinned-cluster', differs);
}

/**
 * Verifies the certificate of the node that responded, by the clock of this machine or, if that fails, by the clock of
 * the cluster. Tries the CAs in their order, and returns the CA bundle that verified the certificate.
 */
function verifyServer(
  { clusterId, nodeCertificatePem }: ClusterIdentity,
  { server }: ClusterTrust,
  { cas, timesMs }: { readonly cas: readonly string[]; readonly timesMs: readonly number[] },
): { readonly nodeId: string; readonly pubKeyDer: Uint8Array; readonly clusterCaPem: string } {
  let last: unknown;
  for (const clusterCaPem of cas) {
    for (const timeMs of timesMs) {
      try {
        const certificate = new X509Certificate(nodeCertificatePem);
        const trust = { caPem: clusterCaPem, clusterId, nowMs: () => timeMs };
        const { nodeId } = verifyCuratorCertificate(certificate, trust);
        if (server !== 'any' && !server.nodeIds.includes(nodeId))
          verifyControlPlaneCertificate(certificate, trust);
        return { nodeId, pubKeyDer: spkiDerOf(certificate.publicKey), clusterCaPem };
      } catch (error) {
        last = error;
      }
    }
  }
  throw unproved(clusterId, 'invalid node certificate', last);
}

function unproved(clusterId: string, why: string, cause?: unknown): JoinClientError {
  return new JoinClientError(
    'joinclient-cluster-unverified',
    `cannot verify cluster ${JSON.stringify(clusterId.slice(0, 40))}: ${why}`,
    { cause },
  );
}
