import { MINUTES_PER_DAY } from '../../internal/clock/index.ts';
import { nodeSettingsFrom, operatorMinutesFrom } from '../../internal/config/index.ts';
import { formatEndpoint, PORTS } from '../../internal/endpoint/index.ts';
import { readText, type FilePort } from '../../internal/file/index.ts';
import {
  type CertificateSigner,
  fingerprintOfKey,
  KeyCertificateSigner,
  type LeafSpec,
  operatorLeaf,
  verifyCertificateRequest,
} from '../../internal/pki/index.ts';
import { KUBERNETES_GROUPS } from '../../internal/role/index.ts';
import { Secret } from '../../internal/secret/index.ts';
import type { Membership } from '../membership/index.ts';
import type { InitOutcome, InitRecord } from '../initserver/index.ts';
import { PATHS, readServersTrust, ROTATED_FILES } from '../kubernetes/index.ts';

/**
 * Builds the result of an init: certificates for the keys in the request, and the endpoints of the cluster. After a restore of keys that
 * were rotated, API servers accept clients of the rotated CA only.
 */
export async function buildInitOutcome(
  ports: { readonly files: FilePort; readonly authority: CertificateSigner; readonly nowMs: () => number },
  { spec }: InitRecord,
  membership: Membership,
): Promise<InitOutcome> {
  const { files, authority, nowMs } = ports;
  const { clusterId, nodeId, nodeName, nodeAddress, epoch } = membership;
  const kubernetesCaPem = await readServersTrust(files);
  const clientsCaPem = await readText(files, ROTATED_FILES.issuerCert);
  const clientsKey = clientsCaPem === undefined ? `${PATHS.pki}/ca.key` : ROTATED_FILES.issuerKey;
  const clientsCa = new KeyCertificateSigner({
    caPem: clientsCaPem ?? kubernetesCaPem,
    keyPem: new Secret(await readPem(files, clientsKey)),
    nowMs,
  });
  const { apiEndpoint } = nodeSettingsFrom(spec.configuration);
  const validDays = operatorMinutesFrom(spec.configuration) / MINUTES_PER_DAY;
  const own = [formatEndpoint(nodeAddress, PORTS.apiServer)];
  const adminKey = await verifyCertificateRequest(Buffer.from(spec.kubernetesAdminCsrBase64, 'base64'));
  const ownerKey = await verifyCertificateRequest(Buffer.from(spec.ownerCsrBase64, 'base64'));
  const owner = operatorLeaf({ clusterId, pubKeyDer: ownerKey, name: 'owner', validDays });
  const admin: LeafSpec = {
    ...{ commonName: 'owner', organization: KUBERNETES_GROUPS.owner, pubKeyDer: adminKey, validDays },
    // API servers ask whether the key of the owner is still on record (joinservice/authzwebhook).
    userId: fingerprintOfKey(ownerKey),
    usages: ['client'],
    names: [],
  };
  return {
    ...{ clusterId, nodeId, nodeName, epoch, kubernetesCaPem },
    clusterCaPem: authority.caPem,
    ownerCertPem: await authority.issue(owner),
    kubernetesAdminCertPem: await clientsCa.issue(admin),
    ...(clientsCaPem === undefined ? {} : { kubernetesClientsCaPem: clientsCaPem }),
    apiEndpoints: apiEndpoint === undefined ? own : [apiEndpoint, ...own],
    curatorEndpoints: [formatEndpoint(nodeAddress, PORTS.curator)],
  };
}

async function readPem(files: FilePort, path: string): Promise<string> {
  const pem = await readText(files, path);
  if (pem === undefined) throw new Error(`${path} not found`);
  return pem;
}
