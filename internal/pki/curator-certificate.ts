import type { X509Certificate } from 'node:crypto';
import { isSignedByEd25519Key, labeledStatement, u64 } from '../crypto/index.ts';
import { CLOCK_TOLERANCE_MS } from '../clock/index.ts';
import type { LeafSpec, SubjectName } from './certificate-signer.ts';
import { PkiError } from './errors.ts';
import { nodeIdOf, spkiDerOf } from './keys.ts';
import {
  checkIssued,
  CONTROL_PLANE_NAME,
  isControlPlaneCertificate,
  namesOf,
  verifyNodeCertificate,
  type MemberTrust,
} from './member-certificate.ts';

const CLIENT_AUTH = '1.3.6.1.5.5.7.3.2';
const SERVER_AUTH = '1.3.6.1.5.5.7.3.1';

/** The node to whose join service or curator a client is connected. */
interface CuratorIdentity {
  readonly clusterId: string;
  readonly nodeId: string;
}

/** The delegation that a node signs with its own key, so that the services on the node may use another key for TLS. */
interface Delegation {
  readonly clusterId: string;
  /** SubjectPublicKeyInfo (DER) of the key that the services use for TLS. */
  readonly tlsPubKeyDer: Uint8Array;
  /** Seconds since the Unix epoch. */
  readonly notAfterSeconds: number;
}

/**
 * The statement that a node signs with its own key. It allows the services on the node to act as TLS servers in its
 * name with another key. Encoding: label, then cluster id and TLS key, each with its length (u32 big endian) before it,
 * then the expiry (u64 big endian).
 */
export function delegationStatement({ clusterId, tlsPubKeyDer, notAfterSeconds }: Delegation): Uint8Array {
  const end = u64(BigInt(notAfterSeconds));
  return Buffer.concat([labeledStatement('cluster/curator/tls/v1\0', clusterId, tlsPubKeyDer), end]);
}

/**
 * The certificate of the join service and the curator on one node, for TLS servers only. The services have their own
 * key, so an attacker who compromises them does not get the key of the node. The URI contains the delegation that the
 * node signed, with its expiry. Without such a delegation, even an attacker with the key of the cluster CA cannot issue
 * a certificate in the name of a node.
 */
export function curatorLeaf(options: {
  readonly delegation: Delegation;
  /** SubjectPublicKeyInfo (DER) of the node's own Ed25519 key. */
  readonly nodePubKeyDer: Uint8Array;
  /** Signature of the node's key over `delegationStatement()`. */
  readonly signature: Uint8Array;
  readonly addresses: readonly string[];
  readonly validDays: number;
}): LeafSpec {
  const { delegation, nodePubKeyDer, signature } = options;
  const { clusterId, tlsPubKeyDer, notAfterSeconds } = delegation;
  const nodeId = nodeIdOf(nodePubKeyDer);
  const proof = [nodePubKeyDer, signature].map((bytes) => Buffer.from(bytes).toString('base64url')).join('.');
  return {
    commonName: nodeId,
    organization: 'cluster:curators',
    pubKeyDer: tlsPubKeyDer,
    usages: ['server'],
    names: [
      { type: 'url', value: `cluster://${clusterId}/curator/${nodeId}/${notAfterSeconds}.${proof}` },
      { type: 'dns', value: nodeId },
      { type: 'dns', value: CONTROL_PLANE_NAME },
      ...options.addresses.map((value): SubjectName => ({ type: 'ip', value })),
    ],
    validDays: options.validDays,
  };
}

/**
 * Verifies the certificate of a node's services and returns the node. Older releases show the certificate of the node
 * itself, which is accepted as well. Throws `pki-untrusted` or `pki-expired`.
 */
export function verifyCuratorCertificate(certificate: X509Certificate, trust: MemberTrust): CuratorIdentity {
  if (!isCuratorCertificate(certificate)) return verifyNodeCertificate(certificate, trust);
  const doing = `verifying the certificate of ${certificate.subject.replaceAll('\n', ', ')}`;
  checkIssued(certificate, trust, doing);
  const usages = (certificate.keyUsage as readonly string[] | undefined) ?? [];
  if (!usages.includes(SERVER_AUTH) || usages.includes(CLIENT_AUTH))
    throw new PkiError('pki-untrusted', `${doing}: it is not for TLS servers only`);
  return verifyDelegation(certificate, trust, doing);
}

/**
 * Verifies that the server is a control plane of this cluster, no matter which. For clients that know only an address,
 * which may belong to a worker by now. Accepts a former control plane until its certificate expires, and an attacker
 * who has the key of the cluster CA.
 */
export function verifyControlPlaneCertificate(
  certificate: X509Certificate,
  trust: MemberTrust,
): CuratorIdentity {
  const identity = verifyCuratorCertificate(certificate, trust);
  if (!isControlPlaneCertificate(certificate))
    throw new PkiError(
      'pki-untrusted',
      `verifying a control plane: ${identity.nodeId} is not a control plane`,
    );
  return identity;
}

/**
 * Whether the URI of a certificate claims that it belongs to a curator. `verifyCuratorCertificate()` verifies this
 * claim.
 */
function isCuratorCertificate(certificate: X509Certificate): boolean {
  return namesOf(certificate).some((name) => /^URI:cluster:\/\/[^/]+\/curator\//.test(name));
}

const CURATOR_URI =
  /^URI:cluster:\/\/([^/]+)\/curator\/(node-[0-9a-f]{32})\/(\d{1,12})\.([\w-]{1,128})\.([\w-]{1,128})$/;

/** Everything in the URI is untrusted until the signature of the node's key has been verified. */
function verifyDelegation(
  certificate: X509Certificate,
  { clusterId, nowMs }: MemberTrust,
  doing: string,
): CuratorIdentity {
  const uris = namesOf(certificate).filter((name) => name.startsWith('URI:'));
  const [, namedCluster, nodeId, end, key = '', signed = ''] = CURATOR_URI.exec(uris[0] ?? '') ?? [];
  if (uris.length !== 1 || namedCluster !== clusterId || nodeId === undefined)
    throw new PkiError('pki-untrusted', `${doing}: not a curator of cluster ${clusterId}`);
  const nodePubKeyDer = Buffer.from(key, 'base64url');
  if (nodeIdOf(nodePubKeyDer) !== nodeId)
    throw new PkiError('pki-untrusted', `${doing}: the key in its URI is not the key of ${nodeId}`);
  const notAfterSeconds = Number(end);
  const tlsPubKeyDer = spkiDerOf(certificate.publicKey);
  const statement = delegationStatement({ clusterId, tlsPubKeyDer, notAfterSeconds });
  if (!isSignedByEd25519Key(nodePubKeyDer, statement, Buffer.from(signed, 'base64url')))
    throw new PkiError('pki-untrusted', `${doing}: ${nodeId} did not sign the delegation`);
  if (notAfterSeconds * 1000 < nowMs() - CLOCK_TOLERANCE_MS)
    throw new PkiError(
      'pki-expired',
      `${doing}: the delegation expired at ${new Date(notAfterSeconds * 1000).toISOString()}`,
    );
  return { clusterId, nodeId };
}
