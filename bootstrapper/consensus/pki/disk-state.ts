import type { FilePort } from '../../../internal/file/index.ts';
import { ConsensusError } from '../errors.ts';
import type { ConsensusLayout } from '../consensus-layout.ts';

/** What of consensus is on the disk, as far as it decides what may be made. */
export interface EtcdDiskState {
  readonly hasData: boolean;
  /** This node has been a member with data. */
  readonly wasMember: boolean;
  /** Paths of the files without which what is there cannot be trusted or renewed; the first missing one is named. */
  readonly missing: readonly string[];
}

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
 * Only the node that creates the cluster makes authorities; who joins is given them. Whether missing authorities may be made. Only where nothing was built on them yet: a second CA beside the old data
 * would be a second cluster, and an empty etcd in the place of a lost one too.
 */
export function mayCreateCas(
  facts: EtcdDiskState,
  at: { readonly layout: ConsensusLayout; readonly createsCluster: boolean; readonly alone: boolean },
): boolean {
  const { layout, createsCluster, alone } = at;
  const [missing] = facts.missing;
  if (!createsCluster && missing !== undefined && !facts.hasData && !facts.wasMember) {
    throw new ConsensusError('consensus-keys-awaited', `starting etcd: ${missing} is not there`, {
      details: { path: missing },
    });
  }
  if ((facts.hasData || facts.wasMember) && missing !== undefined) {
    throw new ConsensusError('consensus-pki-missing', `starting etcd: ${missing} is gone`, {
      details: { path: missing },
    });
  }
  // Who joins gets its data from the others; who was the first and is alone would begin a second cluster.
  if ((createsCluster || alone) && facts.wasMember && !facts.hasData) {
    throw new ConsensusError('consensus-data-missing', `starting etcd: ${layout.memberData} is gone`, {
      details: { path: layout.memberData },
    });
  }
  return missing !== undefined;
}
