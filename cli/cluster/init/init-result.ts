import { createPrivateKey, X509Certificate } from 'node:crypto';
import type { InitResult } from '../../../initproto/gen/init_pb.js';
import { DNS_LABEL } from '../../../internal/endpoint/index.ts';
import { renderKubeconfig, type KubeAccess } from '../../../internal/kube/index.ts';
import type { Secret } from '../../../internal/secret/index.ts';
import type { InitStateResult } from '../../workspace/index.ts';
import { ClusterError } from '../errors.ts';

/** The values that a result must match. */
export interface ResultExpectation {
  readonly clusterId: string;
  readonly ownerKeyPem: Secret<string>;
  readonly adminKeyPem: Secret<string>;
}

/**
 * Verifies the result of the machine, which may be faulty or hostile: certificates must be for our keys and issued by the CAs
 * that came with them.
 * @throws ClusterError `cluster-result-invalid`
 */
export function verifyInitResult(result: InitResult, expected: ResultExpectation): InitStateResult {
  const text = (bytes: Uint8Array): string => Buffer.from(bytes).toString('utf8');
  const clusterCaPem = text(result.clusterCaPem);
  const kubernetesCaPem = text(result.kubernetesCaPem);
  const ownerCertPem = text(result.ownerCertificatePem);
  const adminCertPem = text(result.kubernetesAdminCertificatePem);
  if (result.clusterId !== expected.clusterId)
    throw invalid(`result is for cluster ${result.clusterId.slice(0, 64)}`);
  assertIssued('owner certificate', ownerCertPem, { caPem: clusterCaPem, keyPem: expected.ownerKeyPem });
  const clientsCaPem = text(result.kubernetesClientsCaPem);
  const byCa = { kubernetesCaPem, ...(clientsCaPem === '' ? {} : { kubernetesClientsCaPem: clientsCaPem }) };
  assertAdminKey({ adminCertPem, ...byCa }, expected.adminKeyPem);
  if (!DNS_LABEL.test(result.nodeName)) throw invalid('result contains a node name that is not a DNS label');
  if (result.apiEndpoints.length === 0) throw invalid('result contains no API endpoint');
  for (const endpoint of [...result.apiEndpoints, ...result.curatorEndpoints]) {
    if (!/^(\[[0-9a-fA-F:]+\]|[A-Za-z0-9.-]+):[0-9]{1,5}$/.test(endpoint))
      throw invalid('result contains an endpoint that is not host:port');
  }
  return {
    clusterId: result.clusterId,
    nodeId: result.nodeId,
    nodeName: result.nodeName,
    clusterCaPem,
    ownerCertPem,
    ...byCa,
    adminCertPem,
    apiEndpoints: result.apiEndpoints,
    curatorEndpoints: result.curatorEndpoints,
    epoch: result.epoch.toString(),
  };
}

/** Checks that the admin certificate belongs to the key. @throws ClusterError `cluster-result-invalid` */
export function assertAdminKey(
  {
    adminCertPem,
    kubernetesCaPem,
    kubernetesClientsCaPem: caPem = kubernetesCaPem,
  }: Pick<InitStateResult, 'adminCertPem' | 'kubernetesCaPem' | 'kubernetesClientsCaPem'>,
  keyPem: Secret<string>,
): void {
  assertIssued('admin certificate', adminCertPem, { caPem, keyPem });
}

/** The kubeconfig of the cluster administrator. @param clusterName from cluster.yaml */
export function kubeconfigFrom(
  clusterName: string,
  result: InitStateResult,
  adminKeyPem: Secret<string>,
): { readonly access: KubeAccess; readonly text: string } {
  const access: KubeAccess = {
    server: `https://${result.apiEndpoints[0] ?? ''}`,
    caPem: result.kubernetesCaPem,
    certPem: result.adminCertPem,
    keyPem: adminKeyPem,
  };
  return { access, text: renderKubeconfig(clusterName, access) };
}

function assertIssued(
  what: string,
  certPem: string,
  by: { readonly caPem: string; readonly keyPem: Secret<string> },
): void {
  try {
    const certificate = new X509Certificate(certPem);
    const authority = new X509Certificate(by.caPem);
    if (!authority.ca || !certificate.verify(authority.publicKey))
      throw invalid(`${what} was issued by a different CA`);
    if (!certificate.checkPrivateKey(createPrivateKey(by.keyPem.reveal())))
      throw invalid(`${what} is for a different key`);
  } catch (error) {
    if (error instanceof ClusterError) throw error;
    throw invalid(`malformed ${what}`);
  }
}

function invalid(why: string): ClusterError {
  return new ClusterError('cluster-result-invalid', `verifying the result of the init: ${why}`);
}
