import type { FilePort } from '../../../internal/file/index.ts';
import { ConsensusError } from '../errors.ts';
import type { ConsensusLayout } from '../consensus-layout.ts';

/** The state of an etcd member's files on disk. It decides whether CAs may be created. */
export interface EtcdDiskState {
  readonly hasData: boolean;
  /** Whether this node has been a member with data. */
  readonly wasMember: boolean;
  /** Paths of the CA files that do not exist. */
  readonly missing: readonly string[];
}

/** Reads the disk state of an etcd member. */
export async function inspectDisk(files: FilePort, layout: ConsensusLayout): Promise<EtcdDiskState> {
  const needed = [
    layout.clientsCa.certFile,
    layout.clientsCa.keyFile,
    layout.peersCa.certFile,
    layout.peersCa.keyFile,
  ];
  const stats = await Promise.all(needed.map((path) => files.stat(path)));
  return {
    hasData: (await files.stat(layout.memberData)) !== undefined,
    wasMember: (await files.stat(layout.memberMarker)) !== undefined,
    missing: needed.filter((_, index) => stats[index] === undefined),
  };
}

/**
 * Whether missing CAs may be created: only by the node that creates the cluster, and only before etcd has
 * data. A new CA with old data, or an empty etcd in place of a lost one, would make a second cluster.
 * @throws ConsensusError `consensus-keys-awaited`, `consensus-pki-missing` or `consensus-data-missing`
 */
export function mayCreateCas(
  facts: EtcdDiskState,
  at: { readonly layout: ConsensusLayout; readonly createsCluster: boolean; readonly alone: boolean },
): boolean {
  const { layout, createsCluster, alone } = at;
  const [missing] = facts.missing;
  if (!createsCluster && missing !== undefined && !facts.hasData && !facts.wasMember) {
    throw new ConsensusError('consensus-keys-awaited', `starting etcd: ${missing} not found`, {
      details: { path: missing },
    });
  }
  if ((facts.hasData || facts.wasMember) && missing !== undefined) {
    throw new ConsensusError('consensus-pki-missing', `starting etcd: ${missing} is missing`, {
      details: { path: missing },
    });
  }
  // A node that joins gets its data from the other members. A single node without its data would start a
  // second cluster.
  if ((createsCluster || alone) && facts.wasMember && !facts.hasData) {
    throw new ConsensusError('consensus-data-missing', `starting etcd: ${layout.memberData} is missing`, {
      details: { path: layout.memberData },
    });
  }
  return missing !== undefined;
}
