import { X509Certificate } from 'node:crypto';
import { MINUTES_PER_DAY } from '../../internal/clock/index.ts';
import { kubeletServingMinutes, type CertificatesConfig } from '../../internal/config/index.ts';
import { readText, type FilePort } from '../../internal/file/index.ts';
import {
  hasCertificate,
  KeyCertificateSigner,
  type LeafSpec,
  nodeLeaf,
  pubKeyDerOf,
} from '../../internal/pki/index.ts';
import { Secret } from '../../internal/secret/index.ts';
import type { Membership } from '../membership/index.ts';
import { KUBELET_FILES, PATHS, ROTATED_FILES } from '../kubernetes/index.ts';
import { AGENT_PATHS, type MachineIdentity } from '../nodestate/index.ts';

/** After the first key rotation, client certificates have their own CA. */
const CLIENTS_ISSUER = ROTATED_FILES.issuerCert.slice(0, -'.crt'.length);

/**
 * Whether the node certificate has expired. A certificate that is not valid yet does not count, because it
 * means that the clock is wrong.
 */
export function hasExpired({ nodeCertPem }: Membership, nowMs: number): boolean {
  return Date.parse(new X509Certificate(nodeCertPem).validTo) <= nowMs;
}

/**
 * Renews the certificates of a control plane with its copy of the cluster CA. This is needed if all control planes were
 * off, because then none of them can request certificates from another. It grants no access: curators authorize a node
 * by its recorded key. undefined when this node has no CA.
 */
export async function renewFromLocalCa(
  ports: { readonly files: FilePort; readonly nowMs: () => number },
  machine: Pick<MachineIdentity, 'pubKeyDer'>,
  at: { readonly membership: Membership; readonly lifetimes: CertificatesConfig },
): Promise<Membership | undefined> {
  const { membership, lifetimes } = at;
  const authority = await authorityAt(ports, `${AGENT_PATHS.ca}/ca`);
  if (authority === undefined || !hasCertificate(membership.clusterCaPem, authority.caPem)) return undefined;
  const { clusterId, nodeAddress } = membership;
  const leaf = nodeLeaf({
    ...{ clusterId, pubKeyDer: machine.pubKeyDer, addresses: [nodeAddress] },
    isControlPlane: true,
    validDays: lifetimes.nodeMinutes / MINUTES_PER_DAY,
  });
  await renewKubelet(ports, at);
  return { ...membership, nodeCertPem: await authority.issue(leaf) };
}

async function renewKubelet(
  ports: { readonly files: FilePort; readonly nowMs: () => number },
  at: { readonly membership: Membership; readonly lifetimes: CertificatesConfig },
): Promise<void> {
  const { files } = ports;
  const { nodeId, nodeName, nodeAddress } = at.membership;
  const crossPem = await readText(files, ROTATED_FILES.serversCross);
  const servers = await authorityAt(ports, `${PATHS.pki}/ca`, crossPem);
  if (servers === undefined) return;
  const clients = (await authorityAt(ports, CLIENTS_ISSUER)) ?? servers;
  const names: LeafSpec['names'] = [
    { type: 'dns', value: nodeName },
    { type: 'ip', value: nodeAddress },
  ];
  const pairs = [
    [clients, KUBELET_FILES.clientKey, KUBELET_FILES.clientCert, { usages: ['client'], names: [] }],
    [
      servers,
      KUBELET_FILES.servingKey,
      KUBELET_FILES.servingCert,
      { usages: ['server'], names, validDays: kubeletServingMinutes(at.lifetimes) / MINUTES_PER_DAY },
    ],
  ] as const;
  const whom = {
    commonName: `system:node:${nodeName}`,
    organization: 'system:nodes',
    // API servers identify the machine by this id
    // (bootstrapper/kubernetes/controlplane/authorization-config.ts).
    userId: nodeId,
    validDays: at.lifetimes.kubeletMinutes / MINUTES_PER_DAY,
  };
  for (const [signer, keyFile, certFile, as] of pairs) {
    const key = await readText(files, keyFile);
    if (key === undefined) continue;
    const pem = await signer.issue({ ...whom, ...as, pubKeyDer: pubKeyDerOf(new Secret(key)) });
    await files.writeAtomic(certFile, pem, { mode: 0o644 });
  }
}

async function authorityAt(
  { files, nowMs }: { readonly files: FilePort; readonly nowMs: () => number },
  base: string,
  crossPem?: string,
): Promise<KeyCertificateSigner | undefined> {
  const [caPem, key] = [await readText(files, `${base}.crt`), await readText(files, `${base}.key`)];
  if (caPem === undefined || key === undefined) return undefined;
  return new KeyCertificateSigner({ caPem, keyPem: new Secret(key), nowMs, crossPem });
}
