import type { Membership } from '../membership/index.ts';
import type {
  BootstrapData,
  ClusterSettings,
  RoleSet,
  RoleValueStore,
  RoleValueWriters,
} from './role-values.ts';

const OWN_VALUES = ['bootstrapData', 'clusterMembership', 'clusterSettings', 'localRoles'] as const;

/** The state with which this node becomes a member. */
export interface MemberState {
  readonly membership: Membership;
  readonly roles: RoleSet;
}

/**
 * The only writer of this node's membership, roles and settings. Enrolment and the workers report what has
 * happened, after it is on disk. Each report sets all its values at once, so that no reader sees only some of
 * them.
 */
export class NodeMembership {
  readonly #values: Pick<RoleValueWriters, (typeof OWN_VALUES)[number]>;

  /** Claims its values, so there is only one `NodeMembership` for each store. */
  constructor(store: RoleValueStore) {
    this.#values = store.claim(...OWN_VALUES);
  }

  /** An init was accepted: this node creates the cluster. */
  creating(settings: ClusterSettings, data: BootstrapData): void {
    this.#values.clusterSettings.set(settings);
    this.#values.bootstrapData.set(data);
  }

  /** The cluster exists, and this node is its first member. */
  created(state: MemberState): void {
    this.entered(state);
    this.#values.bootstrapData.set(undefined);
  }

  /** The settings of this node's cluster are known, but its certificates may still have to be renewed. */
  configured(settings: ClusterSettings): void {
    this.#values.clusterSettings.set(settings);
  }

  /** This node is a member: it has joined, or it was one before the agent started. */
  entered({ membership, roles }: MemberState): void {
    this.#values.clusterMembership.set(membership);
    this.#values.localRoles.set(roles);
  }

  /** This node has a new certificate. */
  renewed(membership: Membership): void {
    this.#values.clusterMembership.set(membership);
  }

  /** The cluster has assigned roles to this node. */
  assigned(roles: RoleSet): void {
    this.#values.localRoles.set(roles);
  }
}
