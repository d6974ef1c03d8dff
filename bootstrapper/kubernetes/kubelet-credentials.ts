import { X509Certificate } from 'node:crypto';
import type { FilePort } from '../../internal/file/index.ts';
import { generateKeyPem, KeySigner, pubKeyOf, type LeafSpec } from '../../internal/pki/index.ts';
import { Secret } from '../../internal/secret/index.ts';
import { KubernetesError } from './errors.ts';
import { KUBELET_FILES } from './material.ts';
import { LOCAL_API_ENDPOINT, PATHS, type KubernetesSettings } from './settings.ts';

const MAX_BYTES = 64 * 1024;
const YEAR_DAYS = 365;

/**
 * What the kubelet of a node that creates the cluster proves itself with, from the CA that was just made: the same that
 * every later node gets with its ticket. What is there stays.
 */
export async function makeKubeletCredentials(
  ports: { readonly files: FilePort; readonly nowMs: () => number },
  settings: Pick<KubernetesSettings, 'nodeId' | 'nodeName' | 'nodeAddress'>,
): Promise<void> {
  const { files, nowMs } = ports;
  const [caPem, caKey] = [await text(files, `${PATHS.pki}/ca.crt`), await text(files, `${PATHS.pki}/ca.key`)];
  const signer = new KeySigner({ caPem, keyPem: new Secret(caKey), nowMs });
  await files.makeDirectory(folderOf(KUBELET_FILES.ca));
  await files.writeAtomic(KUBELET_FILES.ca, caPem, { mode: 0o644 });
  const { nodeId, nodeName, nodeAddress } = settings;
  const whom = {
    commonName: `system:node:${nodeName}`,
    organization: 'system:nodes',
    userId: nodeId,
    validDays: YEAR_DAYS,
  };
  await makePair(files, signer, {
    keyFile: KUBELET_FILES.clientKey,
    certFile: KUBELET_FILES.clientCert,
    leaf: { ...whom, usages: ['client'], names: [] },
  });
  const names: LeafSpec['names'] = [
    { type: 'dns', value: nodeName },
    { type: 'ip', value: nodeAddress },
  ];
  await makePair(files, signer, {
    keyFile: KUBELET_FILES.servingKey,
    certFile: KUBELET_FILES.servingCert,
    leaf: { ...whom, usages: ['server'], names },
  });
}

/**
 * The kubelet's kubeconfig. It names files, so that renewed certificates are taken without a restart. kubeadm's folder of
 * certificates stays empty on a worker: a CA without its key is something else to kubeadm ("external CA").
 * @throws KubernetesError `kubernetes-credentials-missing`
 */
export async function placeKubeletCredentials(files: FilePort): Promise<void> {
  for (const path of Object.values(KUBELET_FILES)) await text(files, path);
  await files.makeDirectory(folderOf(PATHS.kubeletConf), 0o755);
  const name = 'cluster';
  const config = {
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [
      {
        name,
        cluster: { server: `https://${LOCAL_API_ENDPOINT}`, 'certificate-authority': KUBELET_FILES.ca },
      },
    ],
    users: [
      {
        name: 'kubelet',
        user: { 'client-certificate': KUBELET_FILES.clientCert, 'client-key': KUBELET_FILES.clientKey },
      },
    ],
    contexts: [{ name, context: { cluster: name, user: 'kubelet' } }],
    'current-context': name,
  };
  await files.writeAtomic(PATHS.kubeletConf, `${JSON.stringify(config, undefined, 2)}\n`);
}

/** The key is on disk before the certificate: a crash between the two makes the certificate of the same key. */
async function makePair(
  files: FilePort,
  signer: KeySigner,
  pair: {
    readonly keyFile: string;
    readonly certFile: string;
    readonly leaf: Omit<LeafSpec, 'pubKeyDer'>;
  },
): Promise<void> {
  await files.createExclusive(pair.keyFile, generateKeyPem().reveal());
  const pubKeyDer = pubKeyOf(new Secret(await text(files, pair.keyFile)));
  const found = await files.read(pair.certFile, MAX_BYTES);
  if (found !== undefined && isIssuedTo(Buffer.from(found).toString('utf8'), pubKeyDer, signer.caPem)) return;
  const certPem = await signer.issue({ ...pair.leaf, pubKeyDer });
  await files.writeAtomic(pair.certFile, certPem, { mode: 0o644 });
}

function isIssuedTo(certPem: string, pubKeyDer: Uint8Array, caPem: string): boolean {
  try {
    const certificate = new X509Certificate(certPem);
    const spki = certificate.publicKey.export({ type: 'spki', format: 'der' });
    return certificate.verify(new X509Certificate(caPem).publicKey) && Buffer.compare(spki, pubKeyDer) === 0;
  } catch {
    return false; // garbage is replaced
  }
}

async function text(files: FilePort, path: string): Promise<string> {
  const bytes = await files.read(path, MAX_BYTES);
  if (bytes === undefined)
    throw new KubernetesError('kubernetes-credentials-missing', `reading ${path}: it is not there`, {
      details: { path },
    });
  return Buffer.from(bytes).toString('utf8');
}

function folderOf(path: string): string {
  return path.slice(0, path.lastIndexOf('/'));
}
