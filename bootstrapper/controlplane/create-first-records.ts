import { createHash } from 'node:crypto';
import { encodeEnrolmentRequest, endorsementKeyIdOf } from '../../internal/attestation/enrolment/index.ts';
import { endorsementKeyIdentity } from '../../internal/attestation/index.ts';
import { MINUTES_PER_DAY } from '../../internal/clock/index.ts';
import { DEFAULT_CERTIFICATES } from '../../internal/config/index.ts';
import { type CertificateSigner, nodeLeaf } from '../../internal/pki/index.ts';
import { type KeySpace, Namespace } from '../../internal/etcd/index.ts';
import { CLUSTER_PREFIX, type NodeRecord } from '../../internal/records/index.ts';
import { nameOf, parsePublic } from '../../internal/tpm/index.ts';
import { firstNodeRoles, type Role } from '../../internal/role/index.ts';
import { OwnerDocumentError, parseDocument, recordKeyOf } from '../../internal/ownerdocument/index.ts';
import {
  createClusterRecords,
  restoreClusterRecords,
  type NamedKey,
  type NewCluster,
} from '../consensus/index.ts';
import type { Membership } from '../membership/index.ts';
import { type BootstrapData, settingsFromSpec } from '../roleserve/index.ts';
import type { MachineEvidence } from '../attest/index.ts';
import type { MachineIdentity } from '../nodestate/index.ts';

/** The part of this machine's evidence that the first records need. */
export type FirstEvidence = Pick<MachineEvidence, 'variant' | 'readEnrolment' | 'readLockCounter'>;

/** Writes the first records of a new or restored cluster. Resolves to the membership and the roles of the first node. */
export async function createFirstRecords(
  ports: { readonly admin: KeySpace; readonly authority: CertificateSigner; readonly nowMs: () => number },
  options: {
    readonly data: BootstrapData;
    readonly machine: MachineIdentity;
    readonly evidence: FirstEvidence;
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
  const created: NewCluster = {
    clusterId: spec.clusterId,
    clusterName: spec.clusterName,
    caPem: ports.authority.caPem,
    node,
    owners,
    configuration: Buffer.from(spec.configuration, 'utf8'),
    documents: readDocuments(spec.ownerDocumentsBase64 ?? []),
    settings,
    nowMs,
  };
  const etcd = new Namespace(ports.admin, CLUSTER_PREFIX);
  const cluster =
    spec.restore === undefined
      ? (await createClusterRecords(etcd, created, signal)).cluster
      : await restoreClusterRecords(etcd, created, { ...spec.restore, signal });
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
 * Parses the signed documents of the owner. Their signatures are not verified here, because every reader of a document
 * verifies them. Documents of a newer CLI that this agent cannot parse are left out.
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

/**
 * The `admission` in the record of the first node: the identity that its evidence proves. The owner has
 * verified this evidence before the init. With it the node renews its certificates like every other node.
 * undefined when only a confidential processor identifies the machine, because only a verifier can read that
 * identity from the evidence.
 */
async function firstNodeAdmission(
  evidence: FirstEvidence,
  machine: { readonly fingerprint: string },
  at: { readonly nowMs: number; readonly signal: AbortSignal },
): Promise<NodeRecord['admission']> {
  const { variant } = evidence;
  const base = {
    proof: 'pinned',
    profile: 'identity',
    policyVersion: 'init',
    decidedBy: 'init',
    timeMs: at.nowMs,
  } as const;
  if (variant === 'machine-key') {
    const id = machine.fingerprint.replace('sha256:', '');
    return { ...base, variant, identity: `machine-key:${id}`, evidenceDigest: id };
  }
  const request = variant === 'tpm' ? await evidence.readEnrolment(at.signal) : undefined;
  if (request === undefined) return undefined;
  const lockCounter = await evidence.readLockCounter(at.signal);
  const akName = nameOf(parsePublic(request.attestationKey));
  return {
    ...base,
    variant,
    identity: endorsementKeyIdentity(endorsementKeyIdOf(request.endorsementKey)),
    akName: Buffer.from(akName).toString('hex'),
    ...(lockCounter === undefined ? {} : { lockCounter: lockCounter.toString() }),
    evidenceDigest: createHash('sha256').update(encodeEnrolmentRequest(request)).digest('hex'),
  };
}
