import { createPrivateKey, generateKeyPairSync, sign, X509Certificate } from 'node:crypto';
import { MINUTES_PER_DAY } from '../../internal/clock/index.ts';
import { readText, type FilePort } from '../../internal/file/index.ts';
import {
  type CertificateTimes,
  certificateTimesOf,
  curatorLeaf,
  delegationStatement,
  hasCertificate,
  KeyCertificateSigner,
  pubKeyDerOf,
  renewalTimeOf,
  spkiDerOf,
  verifyCuratorCertificate,
} from '../../internal/pki/index.ts';
import { Secret } from '../../internal/secret/index.ts';
import { UnitError } from '../units/index.ts';
import type { Membership } from '../membership/index.ts';
import { AGENT_PATHS, type MachineIdentity } from '../nodestate/index.ts';

const MINUTE_SECONDS = 60;

/** Paths of the TLS key of this node's join service and curator, and of its certificate. */
export interface CuratorCredentials {
  readonly certFile: string;
  readonly keyFile: string;
}

/** Identity for which the certificate is issued. */
export interface CuratorCredentialOptions {
  readonly membership: Membership;
  readonly machine: Pick<MachineIdentity, 'keyPem' | 'pubKeyDer'>;
  /** Validity of the certificate in minutes. */
  readonly validMinutes: number;
}

/**
 * Ensures the TLS credentials of the join service and the curator, which untrusted peers can reach. These
 * services do not get the machine key. Instead, the agent signs a delegation to the TLS key with the machine
 * key, valid until the certificate expires, and the cluster CA signs the certificate. Each certificate is for
 * a new key, so a stolen key is useful only for days. Valid credentials are left unchanged.
 * @throws UnitError `units-no-cluster-ca` when this node has no cluster CA
 */
export async function ensureCuratorCredentials(
  ports: { readonly files: FilePort; readonly nowMs: () => number },
  options: CuratorCredentialOptions,
): Promise<CuratorCredentials> {
  const { files, nowMs } = ports;
  const at = { certFile: AGENT_PATHS.curatorCert, keyFile: AGENT_PATHS.curatorKey };
  const authority = await authorityOf(files, options.membership, nowMs);
  const certPem = await readText(files, at.certFile);
  const keyPem = await readText(files, at.keyFile);
  // If the cluster CA was replaced in the meantime, the existing certificate is from the previous CA and is not usable.
  const expected = { ...options, caPem: authority.caPem };
  if (certPem !== undefined && keyPem !== undefined && isUsable({ certPem, keyPem }, expected, nowMs()))
    return at;
  const { keyPem: madeKey, certPem: madeCert } = await make(authority, nowMs, options);
  await files.makeDirectory(AGENT_PATHS.credentials);
  // After a crash between these two writes, key and certificate do not match, and the next start replaces both.
  await files.writeAtomic(at.keyFile, madeKey.reveal());
  await files.writeAtomic(at.certFile, madeCert);
  return at;
}

/** Deletes the credentials of a node that is no longer a control plane. */
export async function removeCuratorCredentials(files: FilePort): Promise<void> {
  await files.remove(AGENT_PATHS.curatorKey);
  await files.remove(AGENT_PATHS.curatorCert);
}

/** Validity of the certificate; empty when there is no certificate. */
export async function curatorCertificateTimes(files: FilePort): Promise<readonly CertificateTimes[]> {
  const certPem = await readText(files, AGENT_PATHS.curatorCert);
  if (certPem === undefined) return [];
  try {
    return [certificateTimesOf(certPem)];
  } catch {
    return [{ issuedMs: 0, notAfterMs: 0 }]; // the certificate is damaged: renew it now
  }
}

async function make(
  authority: KeyCertificateSigner,
  nowMs: () => number,
  { membership, machine, validMinutes }: CuratorCredentialOptions,
): Promise<{ readonly certPem: string; readonly keyPem: Secret<string> }> {
  const { clusterId, nodeAddress } = membership;
  const { privateKey } = generateKeyPairSync('ed25519');
  const keyPem = new Secret(privateKey.export({ type: 'pkcs8', format: 'pem' }).toString());
  const notAfterSeconds = Math.floor(nowMs() / 1000) + Math.ceil(validMinutes * MINUTE_SECONDS);
  const delegation = { clusterId, tlsPubKeyDer: pubKeyDerOf(keyPem), notAfterSeconds };
  const nodeKey = createPrivateKey(machine.keyPem.reveal());
  const leaf = curatorLeaf({
    delegation,
    nodePubKeyDer: machine.pubKeyDer,
    signature: new Uint8Array(sign(undefined, delegationStatement(delegation), nodeKey)),
    addresses: [nodeAddress],
    validDays: validMinutes / MINUTES_PER_DAY,
  });
  return { keyPem, certPem: await authority.issue(leaf) };
}

/**
 * The CA on disk that signs the certificates of this curator. @throws UnitError `units-no-cluster-ca` without a CA on
 * disk, and if the membership does not trust that CA: members would refuse the certificates.
 */
async function authorityOf(
  files: FilePort,
  { clusterCaPem }: Membership,
  nowMs: () => number,
): Promise<KeyCertificateSigner> {
  const [caPem, keyPem] = [
    await readText(files, `${AGENT_PATHS.ca}/ca.crt`),
    await readText(files, `${AGENT_PATHS.ca}/ca.key`),
  ];
  if (caPem === undefined || keyPem === undefined || !hasCertificate(clusterCaPem, caPem))
    throw new UnitError(
      'units-no-cluster-ca',
      `reading the cluster CA in ${AGENT_PATHS.ca}: not found, or not trusted by the membership of this node`,
    );
  return new KeyCertificateSigner({ caPem, keyPem: new Secret(keyPem), nowMs });
}

/** Whether the credentials are for this cluster, node, address and key, and not due for renewal. */
function isUsable(
  { certPem, keyPem }: { readonly certPem: string; readonly keyPem: string },
  { membership, caPem }: CuratorCredentialOptions & { readonly caPem: string },
  nowMs: number,
): boolean {
  const { clusterId, nodeId, nodeAddress } = membership;
  try {
    const certificate = new X509Certificate(certPem);
    const named = verifyCuratorCertificate(certificate, { caPem, clusterId, nowMs: () => nowMs });
    const isOwn = Buffer.compare(spkiDerOf(certificate.publicKey), pubKeyDerOf(new Secret(keyPem))) === 0;
    const isHere = certificate.checkIP(nodeAddress) !== undefined;
    return named.nodeId === nodeId && isOwn && isHere && renewalTimeOf(certificateTimesOf(certPem)) > nowMs;
  } catch {
    return false; // damaged, expired or of another cluster: the caller creates new credentials
  }
}
