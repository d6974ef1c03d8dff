import type { FilePort } from '../../../internal/file/index.ts';
import { ConsensusError, type ConsensusErrorCode } from '../errors.ts';
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
  const refusal = (code: ConsensusErrorCode, path: string, why: string): ConsensusError =>
    new ConsensusError(code, `starting etcd: ${path} ${why}`, { details: { path } });
  if (!createsCluster && missing !== undefined && !facts.hasData && !facts.wasMember)
    throw refusal('consensus-keys-awaited', missing, 'not found');
  if ((facts.hasData || facts.wasMember) && missing !== undefined)
    throw refusal('consensus-pki-missing', missing, 'is missing');
  // A node that joins gets its data from the other members. A single node without its data would start a
  // second cluster.
  if ((createsCluster || alone) && facts.wasMember && !facts.hasData)
    throw refusal('consensus-data-missing', layout.memberData, 'is missing');
  return missing !== undefined;
}
