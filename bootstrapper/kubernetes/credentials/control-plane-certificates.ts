import { MINUTES_PER_DAY } from '../../../internal/clock/index.ts';
import { readText, type FilePort } from '../../../internal/file/index.ts';
import {
  certificateTimesOf,
  reissueCertificate,
  renewalTimeOf,
  type CertificateTimes,
} from '../../../internal/pki/index.ts';
import { loadCa, isIssuedBy, readServersTrust, type CaName, type CredentialPorts } from './key-pair.ts';
import { COMPONENT_CLIENTS, ROTATED_FILES } from './key-files.ts';
import { PATHS } from '../settings.ts';

const EMBEDDED = /(client-certificate-data:\s*)([A-Za-z0-9+/=]+)/;
const EMBEDDED_CA = /(certificate-authority-data:\s*)([A-Za-z0-9+/=]+)/;

/** A certificate of the Kubernetes control plane that this node issues to itself. */
export interface ControlPlaneCertificate {
  readonly path: string;
  readonly ca: CaName;
  /** "pem": a separate file. "kubeconfig": inside a kubeconfig, next to its key. */
  readonly form: 'pem' | 'kubeconfig';
}

/**
 * All certificates of this kind. The components that use them reload them without a restart
 * (docs/certificates.md).
 */
export const CONTROL_PLANE_CERTIFICATES: readonly ControlPlaneCertificate[] = [
  { path: `${PATHS.pki}/apiserver.crt`, ca: 'servers', form: 'pem' },
  { path: `${PATHS.pki}/apiserver-kubelet-client.crt`, ca: 'clients', form: 'pem' },
  { path: `${PATHS.pki}/front-proxy-client.crt`, ca: 'front-proxy', form: 'pem' },
  { path: COMPONENT_CLIENTS['controller-manager'].cert, ca: 'clients', form: 'pem' },
  { path: COMPONENT_CLIENTS.scheduler.cert, ca: 'clients', form: 'pem' },
  { path: PATHS.adminConf, ca: 'clients', form: 'kubeconfig' },
];

/**
 * Validity of the existing certificates. Omits unreadable certificates; the component that uses such a
 * certificate reports it.
 */
export async function controlPlaneCertificateTimes(files: FilePort): Promise<readonly CertificateTimes[]> {
  const found = await Promise.all(CONTROL_PLANE_CERTIFICATES.map((own) => timesOf(files, own)));
  return found.filter((times) => times !== undefined);
}

/**
 * Renews certificates that are due and certificates of a replaced CA, and keeps their keys. Each renewal is
 * one rename: readers get the old or the new certificate, and after a crash every certificate matches its
 * key.
 * @returns the paths of renewed certificates
 */
export async function renewControlPlaneCertificates(
  ports: CredentialPorts,
  { controlPlaneMinutes }: { readonly controlPlaneMinutes: number },
): Promise<readonly string[]> {
  const { files, clock } = ports;
  const renewed: string[] = [];
  const failures: unknown[] = [];
  for (const own of CONTROL_PLANE_CERTIFICATES) {
    try {
      const times = await timesOf(files, own);
      if (times === undefined) continue;
      if (renewalTimeOf(times) > clock.nowMs() && !(await isOfOtherCa(ports, own))) continue;
      await renew(ports, own, controlPlaneMinutes / MINUTES_PER_DAY);
      renewed.push(own.path);
    } catch (error) {
      failures.push(error); // the other certificates are renewed nevertheless
    }
  }
  if (failures.length > 0) throw failures[0];
  await renewAdminTrust(ports);
  return renewed;
}

async function renew(ports: CredentialPorts, own: ControlPlaneCertificate, validDays: number): Promise<void> {
  const { files } = ports;
  const text = await read(files, own.path);
  const signer = await loadCa(ports, own.ca);
  const certPem = await reissueCertificate(certificateIn(text, own.form), signer, validDays);
  if (own.form === 'pem') return files.writeAtomic(own.path, certPem, { mode: 0o644 });
  const data = Buffer.from(certPem, 'utf8').toString('base64');
  await files.writeAtomic(own.path, text.replace(EMBEDDED, `$1${data}`));
}

/** Replaces the CAs of servers in the kubeconfig of the administrator, once a rotation has replaced the CA. */
async function renewAdminTrust({ files }: CredentialPorts): Promise<void> {
  if ((await files.stat(ROTATED_FILES.serversTrustBundle)) === undefined) return;
  const found = await read(files, PATHS.adminConf);
  const data = Buffer.from(await readServersTrust(files), 'utf8').toString('base64');
  const text = found.replace(EMBEDDED_CA, `$1${data}`);
  if (text !== found) await files.writeAtomic(PATHS.adminConf, text);
}

/**
 * Whether another CA issued the certificate. Always false before a rotation has replaced the CA, because the operator may have
 * installed a certificate of a private CA.
 */
async function isOfOtherCa(ports: CredentialPorts, own: ControlPlaneCertificate): Promise<boolean> {
  const { files } = ports;
  const { serversTrustBundle, issuerCert } = ROTATED_FILES;
  const replaced = own.ca === 'servers' ? serversTrustBundle : issuerCert;
  if ((await files.stat(replaced)) === undefined) return false;
  const { caPem } = await loadCa(ports, own.ca);
  return !isIssuedBy(certificateIn(await read(files, own.path), own.form), caPem);
}

async function timesOf(files: FilePort, own: ControlPlaneCertificate): Promise<CertificateTimes | undefined> {
  try {
    return certificateTimesOf(certificateIn(await read(files, own.path), own.form));
  } catch {
    return undefined; // the file is missing or unreadable
  }
}

function certificateIn(text: string, form: ControlPlaneCertificate['form']): string {
  if (form === 'pem') return text;
  return Buffer.from(EMBEDDED.exec(text)?.[2] ?? '', 'base64').toString('utf8');
}

async function read(files: FilePort, path: string): Promise<string> {
  return (await readText(files, path)) ?? '';
}
