import { createPrivateKey, generateKeyPairSync, sign, X509Certificate } from 'node:crypto';
import type { FilePort } from '../../internal/file/index.ts';
import {
  type CertificateTimes,
  certificateTimesOf,
  curatorLeaf,
  delegationStatement,
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

const MAX_PEM_BYTES = 64 * 1024;
const MINUTE_SECONDS = 60;
const MINUTES_PER_DAY = 24 * 60;

/** The TLS key of this node's join service and curator, with its certificate. */
export interface CuratorCredentials {
  readonly certFile: string;
  readonly keyFile: string;
}

export interface CuratorCredentialOptions {
  readonly membership: Membership;
  readonly machine: Pick<MachineIdentity, 'keyPem' | 'pubKeyDer'>;
  /** How long the certificate lives. */
  readonly validMinutes: number;
}

/**
 * What the services that untrusted peers reach answer with. The machine's key stays with the agent: it signs that this key
 * may answer in its name until the certificate ends, and the cluster CA, which every control plane has, signs the
 * certificate. A new certificate is for a new key, so a stolen one is of use for days. Nothing changes while what is there
 * is good.
 */
export async function ensureCuratorCredentials(
  ports: { readonly files: FilePort; readonly nowMs: () => number },
  options: CuratorCredentialOptions,
): Promise<CuratorCredentials> {
  const { files, nowMs } = ports;
  const at = { certFile: AGENT_PATHS.curatorCert, keyFile: AGENT_PATHS.curatorKey };
  const certPem = await text(files, at.certFile);
  const keyPem = await text(files, at.keyFile);
  if (certPem !== undefined && keyPem !== undefined && isGood({ certPem, keyPem }, options, nowMs()))
    return at;
  const { keyPem: madeKey, certPem: madeCert } = await make(ports, options);
  await files.makeDirectory(AGENT_PATHS.credentials);
  // A crash in between leaves a pair that does not match, which the next start replaces.
  await files.writeAtomic(at.keyFile, madeKey.reveal());
  await files.writeAtomic(at.certFile, madeCert);
  return at;
}

/** A node that is no control plane any more answers as none. */
export async function removeCuratorCredentials(files: FilePort): Promise<void> {
  await files.remove(AGENT_PATHS.curatorKey);
  await files.remove(AGENT_PATHS.curatorCert);
}

/** When the certificate is due; nothing where there is none. */
export async function curatorCertificateTimes(files: FilePort): Promise<readonly CertificateTimes[]> {
  const certPem = await text(files, AGENT_PATHS.curatorCert);
  if (certPem === undefined) return [];
  try {
    return [certificateTimesOf(certPem)];
  } catch {
    return [{ issuedMs: 0, notAfterMs: 0 }]; // damaged: it is due
  }
}

async function make(
  { files, nowMs }: { readonly files: FilePort; readonly nowMs: () => number },
  { membership, machine, validMinutes }: CuratorCredentialOptions,
): Promise<{ readonly certPem: string; readonly keyPem: Secret<string> }> {
  const { clusterId, nodeAddress } = membership;
  const authority = await authorityOf(files, membership, nowMs);
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

async function authorityOf(
  files: FilePort,
  { clusterCaPem }: Membership,
  nowMs: () => number,
): Promise<KeyCertificateSigner> {
  const [caPem, keyPem] = [
    await text(files, `${AGENT_PATHS.ca}/ca.crt`),
    await text(files, `${AGENT_PATHS.ca}/ca.key`),
  ];
  if (caPem === undefined || keyPem === undefined || caPem.trim() !== clusterCaPem.trim())
    throw new UnitError('units-no-cluster-ca', `reading ${AGENT_PATHS.ca}: the cluster CA is not there`);
  return new KeyCertificateSigner({ caPem, keyPem: new Secret(keyPem), nowMs });
}

/** Of this cluster, for this node at this address, with its own key, and not due. */
function isGood(
  { certPem, keyPem }: { readonly certPem: string; readonly keyPem: string },
  { membership }: CuratorCredentialOptions,
  nowMs: number,
): boolean {
  const { clusterId, clusterCaPem: caPem, nodeId, nodeAddress } = membership;
  try {
    const certificate = new X509Certificate(certPem);
    const named = verifyCuratorCertificate(certificate, { caPem, clusterId, nowMs: () => nowMs });
    const isOwn = Buffer.compare(spkiDerOf(certificate.publicKey), pubKeyDerOf(new Secret(keyPem))) === 0;
    const isHere = certificate.checkIP(nodeAddress) !== undefined;
    return named.nodeId === nodeId && isOwn && isHere && renewalTimeOf(certificateTimesOf(certPem)) > nowMs;
  } catch {
    return false; // damaged, expired or of another cluster: it is made again
  }
}

async function text(files: FilePort, path: string): Promise<string | undefined> {
  const bytes = await files.read(path, MAX_PEM_BYTES);
  return bytes === undefined ? undefined : Buffer.from(bytes).toString('utf8');
}
