import type { FilePort } from '../../internal/file/index.ts';
import type { SavedGrowth } from '../../internal/growth/index.ts';
import type { ClusterDirectory } from '../curatorclient/index.ts';
import type { CachedCollateral } from '../collateral/index.ts';
import { ChecksummedFile, type Membership, type RemovalRecord } from '../membership/index.ts';
import type { JoinRecord } from '../joinclient/index.ts';
import type { ClusterSettings } from '../roleserve/index.ts';
import type { ConfigurationFloors } from '../configuration/index.ts';
import type { SavedRemovals } from '../removedmachines/index.ts';
import type { FloorRecord } from '../rollback/index.ts';
import { AGENT_PATHS } from './paths.ts';

/** The records from which a member starts without a curator, each in its own checksummed file. */
export function createNodeState(files: FilePort) {
  return {
    membership: new ChecksummedFile<Membership>(files, AGENT_PATHS.membership),
    roles: new ChecksummedFile<readonly string[]>(files, AGENT_PATHS.roles),
    settings: new ChecksummedFile<ClusterSettings>(files, AGENT_PATHS.settings),
    /**
     * The control planes of the cluster. Unlike the records above, this one can be fetched again from any
     * curator.
     */
    directory: new ChecksummedFile<ClusterDirectory>(files, AGENT_PATHS.directory),
    /** Workers that forward connections to control planes. */
    relays: new ChecksummedFile<readonly string[]>(files, AGENT_PATHS.relays),
    /** The machines that the cluster refuses. */
    removals: new ChecksummedFile<SavedRemovals>(files, AGENT_PATHS.removals),
    configurationFloors: new ChecksummedFile<ConfigurationFloors>(files, AGENT_PATHS.configurationFloors),
    acceptedDocuments: new ChecksummedFile<FloorRecord>(files, AGENT_PATHS.acceptedDocuments),
    /** The removal of this node from its cluster. */
    removed: new ChecksummedFile<RemovalRecord>(files, AGENT_PATHS.removed),
    /** The admission of this machine to its cluster; it is kept after the machine has joined. */
    join: new ChecksummedFile<JoinRecord>(files, AGENT_PATHS.join),
    /** Endpoints that an operator has added to the endpoints of the provisioning. */
    operatorEndpoints: new ChecksummedFile<readonly string[]>(files, AGENT_PATHS.operatorEndpoints),
    /** Measurements of disks and databases; they begin again where they are lost. */
    growth: new ChecksummedFile<SavedGrowth>(files, AGENT_PATHS.growth),
    /** Certificates and revocation lists of AMD and Intel; they can be downloaded again. */
    collateral: new ChecksummedFile<CachedCollateral>(files, AGENT_PATHS.collateral),
  };
}

/** The records of `createNodeState()`. */
export type NodeState = Readonly<ReturnType<typeof createNodeState>>;
