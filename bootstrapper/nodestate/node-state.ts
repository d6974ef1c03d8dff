import type { FilePort } from '../../internal/file/index.ts';
import type { ClusterDirectory } from '../curatorclient/index.ts';
import type { CachedCollateral } from '../collateral/index.ts';
import { ChecksummedFile, type Membership } from '../membership/index.ts';
import type { JoinRecord } from '../joinclient/index.ts';
import type { ClusterSettings } from '../roleserve/index.ts';
import { AGENT_PATHS } from './paths.ts';

/** What a member knows of itself when nobody else can be asked: each part in a checked file of its own. */
export class NodeState {
  readonly membership: ChecksummedFile<Membership>;
  readonly roles: ChecksummedFile<readonly string[]>;
  readonly settings: ChecksummedFile<ClusterSettings>;
  /** Where the cluster's control planes are; unlike the others it can be learned again. */
  readonly directory: ChecksummedFile<ClusterDirectory>;
  /** Where workers are that lead to them. */
  readonly relays: ChecksummedFile<readonly string[]>;

  /** The admission that this machine is bound to; stays when it is a member. */
  readonly join: ChecksummedFile<JoinRecord>;
  /** Endpoints that somebody told this machine beside its provisioning. */
  readonly operatorEndpoints: ChecksummedFile<readonly string[]>;

  /** What AMD and Intel say; it can be given again. */
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
