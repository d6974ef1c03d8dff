import type { FilePort } from '../../internal/file/index.ts';
import type { ClusterDirectory } from '../curatorclient/index.ts';
import type { CachedCollateral } from '../collateral/index.ts';
import { ChecksummedFile, type Membership } from '../membership/index.ts';
import type { JoinRecord } from '../joinclient/index.ts';
import type { ClusterSettings } from '../roleserve/index.ts';
import { AGENT_PATHS } from './paths.ts';

/** The records from which a member starts without a curator, each in its own checksummed file. */
export class NodeState {
  readonly membership: ChecksummedFile<Membership>;
  readonly roles: ChecksummedFile<readonly string[]>;
  readonly settings: ChecksummedFile<ClusterSettings>;
  /** The control planes of the cluster. Unlike the records above, any curator can send this one again. */
  readonly directory: ChecksummedFile<ClusterDirectory>;
  /** Workers that forward connections to control planes. */
  readonly relays: ChecksummedFile<readonly string[]>;

  /** The admission that this machine is bound to; it is kept after the machine has joined. */
  readonly join: ChecksummedFile<JoinRecord>;
  /** Endpoints that an operator added to those of the provisioning. */
  readonly operatorEndpoints: ChecksummedFile<readonly string[]>;

  /** Certificates and revocation lists of AMD and Intel; they can be downloaded again. */
  readonly collateral: ChecksummedFile<CachedCollateral>;

  constructor(files: FilePort) {
    this.membership = new ChecksummedFile(files, AGENT_PATHS.membership);
    this.roles = new ChecksummedFile(files, AGENT_PATHS.roles);
    this.directory = new ChecksummedFile(files, AGENT_PATHS.directory);
    this.relays = new ChecksummedFile(files, AGENT_PATHS.relays);
    this.join = new ChecksummedFile(files, AGENT_PATHS.join);
    this.operatorEndpoints = new ChecksummedFile(files, AGENT_PATHS.operatorEndpoints);
    this.collateral = new ChecksummedFile(files, AGENT_PATHS.collateral);
    this.settings = new ChecksummedFile(files, AGENT_PATHS.settings);
  }
}
