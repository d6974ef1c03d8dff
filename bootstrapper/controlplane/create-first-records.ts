import { DEFAULT_CERTIFICATES } from '../../internal/config/index.ts';
import { type CertificateSigner, nodeLeaf } from '../../internal/pki/index.ts';
import { type EtcdClient, Namespace } from '../../internal/etcd/index.ts';
import { CLUSTER_PREFIX } from '../../internal/records/index.ts';
import { firstNodeRoles, type Role } from '../../internal/role/index.ts';
import { OwnerDocumentError, parseDocument, recordKeyOf } from '../../internal/ownerdocument/index.ts';
import { createClusterRecords, type NamedKey, type NewCluster } from '../consensus/index.ts';
import type { Membership } from '../membership/index.ts';
import { type BootstrapData, settingsFromSpec } from '../roleserve/index.ts';
import type { MachineEvidence } from '../attest/index.ts';
import { firstNodeAdmission } from './first-node-admission.ts';
import type { MachineIdentity } from '../nodestate/index.ts';

const MINUTES_PER_DAY = 24 * 60;

/** Writes the first records of a new cluster. Resolves to the membership and the roles of the first node. */
export async function createFirstRecords(
  ports: { readonly admin: EtcdClient; readonly authority: CertificateSigner; readonly nowMs: () => number },
  options: {
    readonly data: BootstrapData;
    readonly machine: MachineIdentity;
    readonly evidence: Pick<MachineEvidence, 'variant' | 'readEnrolment' | 'readLockCounter'>;
    readonly address: string;
    readonly owners: readonly [NamedKey, ...NamedKey[]];
    readonly signal: AbortSignal;
  },
): Promise<{ readonly membership: Membership; readonly roles: readonly Role[] }> {
  const { data, machine, evidence, address, owners, signal } = options;
  const { spec } = data;
  const settings = settingsFromSpec(spec);
  const roles = firstNodeRoles({ singleNode: spec.singleNode });
  const nowMs = ports.nowMs();
  const admission = await firstNodeAdmission(evidence, machine, { nowMs, signal });
  const { nodeName: name } = spec;
  const node = { name, address, pubKeyDer: machine.pubKeyDer, roles, labels: {}, admission };
  const { cluster } = await createClusterRecords(
    new Namespace(ports.admin, CLUSTER_PREFIX),
    {
      clusterId: spec.clusterId,
      clusterName: spec.clusterName,
      caPem: ports.authority.caPem,
      node,
      owners,
      configuration: Buffer.from(spec.configuration, 'utf8'),
      documents: readDocuments(spec.ownerDocumentsBase64 ?? []),
      settings,
      nowMs,
    },
    signal,
  );
  const leaf = nodeLeaf({
    ...{ clusterId: spec.clusterId, pubKeyDer: machine.pubKeyDer, addresses: [address] },
    isControlPlane: true,
    validDays: (settings.certificates ?? DEFAULT_CERTIFICATES).nodeMinutes / MINUTES_PER_DAY,
  });
  const membership: Membership = {
    clusterId: spec.clusterId,
    clusterName: spec.clusterName,
    nodeId: machine.nodeId,
    nodeName: spec.nodeName,
    nodeAddress: address,
    nodeCertPem: await ports.authority.issue(leaf),
    clusterCaPem: ports.authority.caPem,
    epoch: cluster.epoch,
    directory: [{ nodeId: machine.nodeId, host: address }],
  };
  return { membership, roles };
}

/**
 * Parses the signed documents of the owner, whose readers verify them. Documents of a newer CLI that this
 * agent cannot parse are left out.
 */
function readDocuments(documents: readonly string[]): NonNullable<NewCluster['documents']> {
  return documents.flatMap((base64) => {
    const bytes = new Uint8Array(Buffer.from(base64, 'base64'));
    try {
      return [{ key: recordKeyOf(parseDocument(bytes)), bytes }];
    } catch (error) {
      if (error instanceof OwnerDocumentError) return [];
      throw error;
    }
  });
}
