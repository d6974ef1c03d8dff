import { X509Certificate } from 'node:crypto';
import { CLOCK_TOLERANCE_MS, type LeafSpec, type SubjectName } from './certificate-signer.ts';
import { PkiError } from './errors.ts';
import { fingerprintOfKey, nodeIdOf, spkiDerOf } from './keys.ts';

const CLIENT_AUTH = '1.3.6.1.5.5.7.3.2';
const SERVER_AUTH = '1.3.6.1.5.5.7.3.1';
const NODE_DAYS = 7;
const OPERATOR_DAYS = 365;
/** A DNS name that only certificates of control planes have; nobody resolves it. */
export const CONTROL_PLANE_NAME = 'control-plane.cluster.internal';

/**
 * Who a certificate of the cluster CA speaks for. It says who somebody is and never what they may do: that is decided
 * by the record of the key in etcd.
 */
export type MemberIdentity =
  | {
      readonly kind: 'node';
      readonly clusterId: string;
      readonly nodeId: string;
      readonly fingerprint: string;
    }
  | {
      readonly kind: 'operator';
      readonly clusterId: string;
      readonly name: string;
      readonly fingerprint: string;
      /** Has shown its key alone: an owner that lost its certificate. No certificate of the CA says this of anybody. */
      readonly isKeyOnly?: true;
    };

/**
 * A node's certificate: serves and calls. Its id is in the common name, as a DNS name and in a URI that also names the
 * cluster; the id is the key's own, so nobody can ask for another one's.
 */
export function nodeLeaf(options: {
  readonly clusterId: string;
  readonly pubKeyDer: Uint8Array;
  readonly addresses: readonly string[];
  /** Whether it runs a control plane: what clients go by that don't know which node has to answer. */
  readonly isControlPlane?: boolean;
  /** 7 unless said; a fraction is fine. */
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

/** The certificate of a person or a program that administers the cluster: calls only. */
export function operatorLeaf(options: {
  readonly clusterId: string;
  readonly pubKeyDer: Uint8Array;
  readonly name: string;
  /** A year unless said; a fraction is fine. */
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

export interface MemberTrust {
  /** The cluster CA. */
  readonly caPem: string;
  readonly clusterId: string;
  readonly nowMs: () => number;
}

/** Who showed this certificate, having proved to hold its key; throws `pki-untrusted` or `pki-expired`. */
export function verifyMemberCertificate(certificate: X509Certificate, trust: MemberTrust): MemberIdentity {
  const doing = `verifying the certificate of ${certificate.subject.replaceAll('\n', ', ')}`;
  checkIssued(certificate, trust, doing);
  const identity = identityOf(certificate, spkiDerOf(certificate.publicKey));
  if (identity?.clusterId !== trust.clusterId)
    throw new PkiError('pki-untrusted', `${doing}: it names no member of cluster ${trust.clusterId}`);
  return identity;
}

/** That the cluster CA has signed it, and that it is good now. Throws `pki-untrusted` or `pki-expired`. */
export function checkIssued(certificate: X509Certificate, trust: MemberTrust, doing: string): void {
  const ca = new X509Certificate(trust.caPem);
  if (certificate.ca || !certificate.checkIssued(ca) || !certificate.verify(ca.publicKey))
    throw new PkiError('pki-untrusted', `${doing}: another CA signed it`);
  const nowMs = trust.nowMs();
  if (Date.parse(certificate.validFrom) > nowMs + CLOCK_TOLERANCE_MS)
    throw new PkiError('pki-expired', `${doing}: not valid before ${certificate.validFrom}`);
  if (Date.parse(certificate.validTo) < nowMs - CLOCK_TOLERANCE_MS)
    throw new PkiError('pki-expired', `${doing}: not valid after ${certificate.validTo}`);
}

/** A node of this cluster, whichever: for clients of a curator, whose address proves nothing. */
export function verifyNodeCertificate(
  certificate: X509Certificate,
  trust: MemberTrust,
): Extract<MemberIdentity, { kind: 'node' }> {
  const identity = verifyMemberCertificate(certificate, trust);
  if (identity.kind !== 'node')
    throw new PkiError(
      'pki-untrusted',
      `verifying a node's certificate: it is that of operator ${identity.name}`,
    );
  return identity;
}

/** What it says; whether that is true its signature tells. */
export function isControlPlaneCertificate(certificate: X509Certificate): boolean {
  return namesOf(certificate).includes(`DNS:${CONTROL_PLANE_NAME}`);
}

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
  return name === nodeIdOf(spkiDer) ? { kind: 'node', clusterId, nodeId: name, fingerprint } : undefined;
}

function uri(clusterId: string, kind: 'node' | 'operator', name: string): SubjectName {
  return { type: 'url', value: `cluster://${clusterId}/${kind}/${encodeURIComponent(name)}` };
}
