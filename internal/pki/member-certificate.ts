import type { X509Certificate } from 'node:crypto';
import { CLOCK_TOLERANCE_MS } from '../clock/index.ts';
import type { LeafSpec, SubjectName } from './certificate-signer.ts';
import { PkiError } from './errors.ts';
import { isIssuedByOneOf } from './ca-bundle.ts';
import { fingerprintOfKey, nodeIdOf, spkiDerOf } from './keys.ts';

const CLIENT_AUTH = '1.3.6.1.5.5.7.3.2';
const SERVER_AUTH = '1.3.6.1.5.5.7.3.1';
const NODE_DAYS = 7;
const OPERATOR_DAYS = 365;
/** A DNS name that only certificates of control planes have. It is never resolved. */
export const CONTROL_PLANE_NAME = 'control-plane.cluster.internal';

const IP_ADDRESS = 'IP Address:';

/**
 * The node or operator that a certificate of the cluster CA was issued to. A certificate identifies its holder and
 * grants no permission: the record of the key in etcd decides what the holder may do.
 */
export type MemberIdentity =
  | {
      readonly kind: 'node';
      readonly clusterId: string;
      readonly nodeId: string;
      readonly fingerprint: string;
      /** IP addresses in its certificate, as node:crypto prints them. */
      readonly addresses: readonly string[];
    }
  | {
      readonly kind: 'operator';
      readonly clusterId: string;
      readonly name: string;
      readonly fingerprint: string;
      /**
       * Set for an owner who lost the certificate and proved only to hold the owner key. Never read from a certificate.
       */
      readonly isKeyOnly?: true;
    };

/**
 * The certificate of a node, for TLS servers and clients. The node id is its common name, a DNS name and part of a URI
 * that also names the cluster. The id is derived from the key, so no node can request a certificate with the id of
 * another node.
 */
export function nodeLeaf(options: {
  readonly clusterId: string;
  readonly pubKeyDer: Uint8Array;
  readonly addresses: readonly string[];
  /** Whether to add `CONTROL_PLANE_NAME`, for clients that do not know the id of the control plane that they call. */
  readonly isControlPlane?: boolean;
  /** Default: 7. May be a fraction. */
  readonly validDays?: number;
}): LeafSpec {
  const nodeId = nodeIdOf(options.pubKeyDer);
  return {
    commonName: nodeId,
    organization: 'cluster:nodes',
    pubKeyDer: options.pubKeyDer,
    usages: ['server', 'client'],
    names: [
      uri(options.clusterId, 'node', nodeId),
      { type: 'dns', value: nodeId },
      ...(options.isControlPlane === true ? [{ type: 'dns', value: CONTROL_PLANE_NAME } as const] : []),
      ...options.addresses.map((value): SubjectName => ({ type: 'ip', value })),
    ],
    validDays: options.validDays ?? NODE_DAYS,
  };
}

/** The certificate of a person or program that administers the cluster, for TLS clients only. */
export function operatorLeaf(options: {
  readonly clusterId: string;
  readonly pubKeyDer: Uint8Array;
  readonly name: string;
  /** Default: 365. May be a fraction. */
  readonly validDays?: number;
}): LeafSpec {
  return {
    commonName: options.name,
    organization: 'cluster:operators',
    pubKeyDer: options.pubKeyDer,
    usages: ['client'],
    names: [uri(options.clusterId, 'operator', options.name)],
    validDays: options.validDays ?? OPERATOR_DAYS,
  };
}

/** The CA, cluster ID and time with which certificates of cluster members are verified. */
export interface MemberTrust {
  /** Certificate of the cluster CA; two concatenated certificates while the CA is replaced. */
  readonly caPem: string;
  readonly clusterId: string;
  readonly nowMs: () => number;
}

/**
 * Verifies the certificate of a peer that proved, in TLS, to hold its key. Throws PkiError `pki-untrusted` or `pki-expired`.
 */
export function verifyMemberCertificate(certificate: X509Certificate, trust: MemberTrust): MemberIdentity {
  const doing = `verifying the certificate of ${certificate.subject.replaceAll('\n', ', ')}`;
  checkIssued(certificate, trust, doing);
  const identity = identityOf(certificate, spkiDerOf(certificate.publicKey));
  if (identity?.clusterId !== trust.clusterId)
    throw new PkiError('pki-untrusted', `${doing}: not a member of cluster ${trust.clusterId}`);
  return identity;
}

/** Checks that a trusted CA signed a certificate and that it is valid now. Throws `pki-untrusted` or `pki-expired`. */
export function checkIssued(certificate: X509Certificate, trust: MemberTrust, doing: string): void {
  if (certificate.ca || !isIssuedByOneOf(certificate, trust.caPem))
    throw new PkiError('pki-untrusted', `${doing}: not signed by the cluster CA`);
  const nowMs = trust.nowMs();
  if (Date.parse(certificate.validFrom) > nowMs + CLOCK_TOLERANCE_MS)
    throw new PkiError('pki-expired', `${doing}: not valid before ${certificate.validFrom}`);
  if (Date.parse(certificate.validTo) < nowMs - CLOCK_TOLERANCE_MS)
    throw new PkiError('pki-expired', `${doing}: not valid after ${certificate.validTo}`);
}

/**
 * Verifies that a certificate belongs to a node of this cluster, and returns the node. For clients that know only an
 * address, not the id of the node. Throws `pki-untrusted` or `pki-expired`.
 */
export function verifyNodeCertificate(
  certificate: X509Certificate,
  trust: MemberTrust,
): Extract<MemberIdentity, { kind: 'node' }> {
  const identity = verifyMemberCertificate(certificate, trust);
  if (identity.kind !== 'node')
    throw new PkiError(
      'pki-untrusted',
      `verifying the certificate of a node: it belongs to operator ${identity.name}`,
    );
  return identity;
}

/** Whether a certificate contains `CONTROL_PLANE_NAME`. Does not verify its signature. */
export function isControlPlaneCertificate(certificate: X509Certificate): boolean {
  return namesOf(certificate).includes(`DNS:${CONTROL_PLANE_NAME}`);
}

/** Subject alternative names as node:crypto prints them: `DNS:…`, `URI:…`, `IP Address:…`. */
export function namesOf(certificate: X509Certificate): readonly string[] {
  return (certificate.subjectAltName ?? '').split(', ');
}

function identityOf(certificate: X509Certificate, spkiDer: Uint8Array): MemberIdentity | undefined {
  const uris = namesOf(certificate).filter((name) => name.startsWith('URI:'));
  const parts = /^URI:cluster:\/\/([^/]+)\/(node|operator)\/([^/]+)$/.exec(uris[0] ?? '');
  const [, clusterId, kind, name] = parts ?? [];
  if (uris.length !== 1 || clusterId === undefined || name === undefined) return undefined;
  const usages = (certificate.keyUsage as readonly string[] | undefined) ?? [];
  if (!usages.includes(CLIENT_AUTH) || usages.includes(SERVER_AUTH) !== (kind === 'node')) return undefined;
  const fingerprint = fingerprintOfKey(spkiDer);
  if (kind === 'operator') return { kind, clusterId, name: decodeURIComponent(name), fingerprint };
  if (name !== nodeIdOf(spkiDer)) return undefined;
  const addresses = namesOf(certificate)
    .filter((each) => each.startsWith(IP_ADDRESS))
    .map((each) => each.slice(IP_ADDRESS.length));
  return { kind: 'node', clusterId, nodeId: name, fingerprint, addresses };
}

function uri(clusterId: string, kind: 'node' | 'operator', name: string): SubjectName {
  return { type: 'url', value: `cluster://${clusterId}/${kind}/${encodeURIComponent(name)}` };
}
