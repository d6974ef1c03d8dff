import type { CertificatesConfig, PodSecurityConfig } from '../../internal/config/index.ts';
import { EventValue } from '../../internal/event/index.ts';
import type { KeyStage } from '../../internal/keyset/index.ts';
import type { Role } from '../../internal/role/index.ts';
import type { InitSpec } from '../initserver/index.ts';
import type { ClusterDirectory } from '../curatorclient/index.ts';
import type { Membership } from '../membership/index.ts';
import type { EtcdClientFiles } from '../kubernetes/index.ts';

/** What a node does in its cluster. */
export type RoleSet = ReadonlySet<Role>;

/** This node is to create the cluster. Spent once the cluster exists. */
export interface BootstrapData {
  readonly initId: string;
  readonly spec: InitSpec;
}

/** Which of the bundle's parts are in place on this node. */
export interface LocalComponents {
  readonly kubernetesVersion: string;
  /** Whether the parts of a control plane are among them. */
  readonly controlPlane: boolean;
  /** `essential`: what this node is not Ready without is there, the rest follows. */
  readonly images: 'importing' | 'essential' | 'imported';
}

/** The running consensus member and curator of this node. */
export interface LocalControlPlane {
  readonly apiServerEtcd: EtcdClientFiles;
  readonly curatorEndpoint: string;
}

export interface KubernetesStatus {
  readonly version: string;
  readonly controlPlane: boolean;
}

/** What Kubernetes is to be in this cluster: the same on every node. From the cluster's configuration. */
export interface ClusterSettings {
  readonly clusterName: string;
  readonly kubernetesVersion: string;
  readonly podSubnet: string;
  readonly serviceSubnet: string;
  readonly apiServerSans: readonly string[];
  readonly bundleManifest: string;
  /** "host:port" of the operator's own balancer of the API servers; none: each node has its own. */
  readonly apiEndpoint?: string | undefined;
  /** Lifetimes of certificates; their defaults unless there. */
  readonly certificates?: CertificatesConfig | undefined;
  /** What pods may ask of machines; absent in a cluster that was made before this was decided. */
  readonly podSecurity?: PodSecurityConfig | undefined;
}

/**
 * The state that the workers of a node share. Each value has one writer; nobody calls sideways.
 *
 * | value               | written by                              | read by                               |
 * |---------------------|-----------------------------------------|---------------------------------------|
 * | bootstrapData       | enrolment; spent by controlplane        | controlplane                          |
 * | clusterMembership   | enrolment                               | all workers                           |
 * | clusterDirectory    | directory                               | curator client, balancer, relay, marks|
 * | clusterRelays       | directory                               | curator client, renewal               |
 * | clusterSettings     | enrolment, rolefetch                    | components, kubernetes                |
 * | localRoles          | enrolment (from disk), rolefetch        | controlplane, kubernetes, statuspush  |
 * | localComponents     | components                              | controlplane, kubernetes              |
 * | localControlPlane   | controlplane                            | kubernetes, statuspush, curator client|
 * | kubernetesStatus    | kubernetes                              | init job, components, statuspush, marks|
 * | clusterKeys         | directory                               | keys, advance                         |
 * | localKeys           | keys                                    | statuspush                            |
 */
export class RoleValues {
  readonly bootstrapData = new EventValue<BootstrapData | undefined>();
  readonly clusterMembership = new EventValue<Membership | undefined>();
  readonly clusterDirectory = new EventValue<ClusterDirectory | undefined>();
  /** Hosts of workers that pass connections on to control planes; no port. */
  readonly clusterRelays = new EventValue<readonly string[] | undefined>();
  readonly clusterSettings = new EventValue<ClusterSettings | undefined>();
  readonly localRoles = new EventValue<RoleSet | undefined>();
  readonly localComponents = new EventValue<LocalComponents | undefined>();
  readonly localControlPlane = new EventValue<LocalControlPlane | undefined>();
  readonly kubernetesStatus = new EventValue<KubernetesStatus | undefined>();
  /** The stage of the keys that control planes share, "GENERATION/PHASE"; empty before the first rotation. */
  readonly clusterKeys = new EventValue<string | undefined>();
  /** What this node has finished of it. */
  readonly localKeys = new EventValue<KeyStage | undefined>();

  constructor() {
    // "Not known yet" is a state that plans decide on, so every value starts with it.
    this.bootstrapData.set(undefined);
    this.clusterMembership.set(undefined);
    this.clusterDirectory.set(undefined);
    this.clusterRelays.set(undefined);
    this.clusterSettings.set(undefined);
    this.localRoles.set(undefined);
    this.localComponents.set(undefined);
    this.localControlPlane.set(undefined);
    this.kubernetesStatus.set(undefined);
    this.clusterKeys.set(undefined);
    this.localKeys.set(undefined);
  }
}
