import type { FilePort } from '../../internal/file/index.ts';
import type { ClusterDirectory } from '../curatorclient/index.ts';
import type { KeptCollateral } from '../collateral/index.ts';
import { CheckedFile, type Membership } from '../enrolment/index.ts';
import type { JoinRecord } from '../joinclient/index.ts';
import type { ClusterSettings } from '../roleserve/index.ts';
import { PLACES } from './places.ts';

/** What a member knows of itself when nobody else can be asked: each part in a checked file of its own. */
export class NodeState {
  readonly membership: CheckedFile<Membership>;
  readonly roles: CheckedFile<readonly string[]>;
  readonly settings: CheckedFile<ClusterSettings>;
  /** Where the cluster's control planes are; unlike the others it can be learned again. */
  readonly directory: CheckedFile<ClusterDirectory>;
  /** Where workers are that lead to them. */
  readonly relays: CheckedFile<readonly string[]>;

  /** The admission that this machine is bound to; stays when it is a member. */
  readonly join: CheckedFile<JoinRecord>;
  /** Endpoints that somebody told this machine beside its provisioning. */
  readonly directed: CheckedFile<readonly string[]>;

  /** What AMD and Intel say; it can be given again. */
  readonly collateral: CheckedFile<KeptCollateral>;

  constructor(files: FilePort) {
    this.membership = new CheckedFile(files, PLACES.membership);
    this.roles = new CheckedFile(files, PLACES.roles);
    this.directory = new CheckedFile(files, PLACES.directory);
    this.relays = new CheckedFile(files, PLACES.relays);
    this.join = new CheckedFile(files, PLACES.join);
    this.directed = new CheckedFile(files, PLACES.directed);
    this.collateral = new CheckedFile(files, PLACES.collateral);
    this.settings = new CheckedFile(files, PLACES.settings);
  }
}
