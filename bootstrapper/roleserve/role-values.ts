import {
  clusterSettingsFrom,
  type CertificatesConfig,
  type ExtraArguments,
  type HardeningConfig,
  type PodSecurityConfig,
} from '../../internal/config/index.ts';
import { EventValue, map, type Readable, type Settable } from '../../internal/event/index.ts';
import type { KeyStage } from '../../internal/keyset/index.ts';
import type { KnownMachine } from '../../internal/records/index.ts';
import type { Role } from '../../internal/role/index.ts';
import type { InitSpec } from '../initserver/index.ts';
import type { ClusterDirectory } from '../curatorclient/index.ts';
import type { Membership } from '../membership/index.ts';
import type { EtcdClientFiles } from '../kubernetes/index.ts';

/** The roles of a node. */
export type RoleSet = ReadonlySet<Role>;

/** The accepted init of a node that creates the cluster; unset again when the cluster exists. */
export interface BootstrapData {
  readonly initId: string;
  readonly spec: InitSpec;
}

/** The state of the bundle's components on this node. */
export interface LocalComponents {
  readonly kubernetesVersion: string;
  /** Whether the components of a control plane are installed. */
  readonly controlPlane: boolean;
  /** `essential`: the images without which the node cannot become Ready are imported; the others follow. */
  readonly images: 'importing' | 'essential' | 'imported';
}

/** The running etcd members and the curator on this node. */
export interface LocalControlPlane {
  readonly apiServerEtcd: EtcdClientFiles;
  readonly curatorEndpoint: string;
}

/** The parts of Kubernetes that run on this node. */
export interface KubernetesStatus {
  readonly version: string;
  readonly controlPlane: boolean;
}

/** The scheduled backups of the cluster as this control plane sees them; times in Unix milliseconds. */
export interface ScheduledBackups {
  readonly periodMs: number;
  /** The end of the owner's signature. */
  readonly endsMs: number;
  /** When the newest backup was taken whose content was proved; before the first one, when the schedule was signed. */
  readonly newestMs: number;
}

/** The copies of this node's backups in the directory or the store that the schedule names. */
export interface BackupCopies {
  /** Whether the last attempt to copy failed. */
  readonly isFailing: boolean;
}

/** Settings of Kubernetes from the configuration of the cluster. They are equal on every node. */
export interface ClusterSettings {
  readonly clusterName: string;
  readonly kubernetesVersion: string;
  readonly podSubnet: string;
  readonly serviceSubnet: string;
  readonly apiServerSans: readonly string[];
  readonly bundleManifest: string;
  /**
   * "host:port" of the operator's load balancer for the API servers. Without one, each node runs its own
   * balancer.
   */
  readonly apiEndpoint?: string | undefined;
  /** Lifetimes of certificates; undefined means the defaults. */
  readonly certificates?: CertificatesConfig | undefined;
  /** Pod Security configuration; absent in clusters of older releases. */
  readonly podSecurity?: PodSecurityConfig | undefined;
  /** Hardening; absent in clusters of older releases. */
  readonly hardening?: HardeningConfig | undefined;
  /** Further arguments that the operator chose; absent: none. */
  readonly extraArguments?: ExtraArguments | undefined;
  /** How the network chart carries packets of pods between nodes; absent: VXLAN. */
  readonly networkBackend?: 'wireguard' | undefined;
}

/** The settings of a new cluster. Every later node gets them with its ticket. */
export function settingsFromSpec(spec: InitSpec): ClusterSettings {
  return clusterSettingsFrom(spec);
}

function unknownYet<T>(): EventValue<T | undefined> {
  const value = new EventValue<T | undefined>();
  value.set(undefined); // undefined is a set value too, so that plans can react to it
  return value;
}

/** All values. Each value is `undefined` until it is known. */
export function createEventValues() {
  return {
    bootstrapData: unknownYet<BootstrapData>(),
    clusterMembership: unknownYet<Membership>(),
    clusterDirectory: unknownYet<ClusterDirectory>(),
    /** Hosts of workers that forward connections to control planes, without a port. */
    clusterRelays: unknownYet<readonly string[]>(),
    clusterSettings: unknownYet<ClusterSettings>(),
    localRoles: unknownYet<RoleSet>(),
    localComponents: unknownYet<LocalComponents>(),
    localControlPlane: unknownYet<LocalControlPlane>(),
    kubernetesStatus: unknownYet<KubernetesStatus>(),
    /** Stage of the keys that control planes share, "GENERATION/PHASE"; empty before the first rotation. */
    clusterKeys: unknownYet<string>(),
    /** SHA-256 (hex) of the configuration of the cluster; empty without one. */
    clusterConfiguration: unknownYet<string>(),
    /** SHA-256 (hex) over the removals of machines; empty while no curator has sent one. */
    clusterRemovals: unknownYet<string>(),
    /** Members that this node knows as removed, and the restored cluster does not. */
    unmergedRemovals: unknownYet<readonly KnownMachine[]>(),
    /** The newest configuration of the cluster, JSON, whose signature this node has verified. */
    signedConfiguration: unknownYet<string>(),
    scheduledBackups: unknownYet<ScheduledBackups>(),
    /** undefined on a node that copies no backups. */
    backupCopies: unknownYet<BackupCopies>(),
    /** The stage of the rotation that this node has completed. */
    localKeys: unknownYet<KeyStage>(),
  };
}

type EventValues = ReturnType<typeof createEventValues>;

/** Name of a value. */
export type RoleValueName = keyof EventValues;

/** The newest content of all values, on which the plan of a worker decides. */
export type RoleState = {
  readonly [Name in RoleValueName]: EventValues[Name] extends EventValue<infer T> ? T : never;
};

/** All values as their readers see them. */
export type RoleValues = { readonly [Name in RoleValueName]: Readable<RoleState[Name]> };

/** The writers of all values; `RoleValueStore.claim` returns each of them once. */
export type RoleValueWriters = { readonly [Name in RoleValueName]: Settable<RoleState[Name]> };

/**
 * The state that the workers of a node share. All workers can read each value, and only one writes it:
 *
 * | value               | writer                | readers                                    |
 * |---------------------|-----------------------|--------------------------------------------|
 * | bootstrapData       | `NodeMembership`      | control plane, components, Kubernetes      |
 * | clusterMembership   | `NodeMembership`      | all workers                                |
 * | clusterSettings     | `NodeMembership`      | components, Kubernetes, balancer           |
 * | localRoles          | `NodeMembership`      | workers that run something, status push    |
 * | clusterDirectory    | directory worker      | curator client, balancer, relay            |
 * | clusterRelays       | directory worker      | curator client, renewal                    |
 * | clusterKeys         | directory worker      | key rotation                               |
 * | clusterConfiguration | directory worker     | configuration worker                       |
 * | clusterRemovals     | directory worker      | removed machines worker                    |
 * | unmergedRemovals    | removed machines worker | status push                              |
 * | signedConfiguration | configuration worker  | registries, authentication                 |
 * | localComponents     | components worker     | control plane, Kubernetes                  |
 * | localControlPlane   | control plane worker  | Kubernetes, signer, status push            |
 * | kubernetesStatus    | Kubernetes worker     | init result, components, status push       |
 * | localKeys           | key rotation          | status push                                |
 * | scheduledBackups    | backup worker         | metrics                                    |
 * | backupCopies        | copy worker           | metrics                                    |
 */
export class RoleValueStore {
  /** Read-only views. A reader cannot set a value through them, not even with a cast. */
  readonly values: RoleValues;
  readonly #all = createEventValues();
  readonly #unclaimed = new Set(Object.keys(this.#all));

  constructor() {
    const views = Object.entries(this.#all).map(([name, value]) => [name, readOnly<unknown>(value)]);
    this.values = Object.fromEntries(views) as RoleValues;
  }

  /**
   * Returns the writers of these values.
   * @throws TypeError when one of them was already claimed
   */
  claim<Name extends RoleValueName>(...names: readonly Name[]): Pick<RoleValueWriters, Name> {
    for (const name of names)
      if (!this.#unclaimed.delete(name)) throw new TypeError(`value ${name} already has a writer`);
    const writers: Partial<RoleValueWriters> = this.#all;
    return Object.fromEntries(names.map((name) => [name, writers[name]])) as Pick<RoleValueWriters, Name>;
  }

  /** Names of values without a writer. */
  get unclaimed(): readonly string[] {
    return [...this.#unclaimed];
  }
}

function readOnly<T>(value: Readable<T>): Readable<T> {
  return map(value, (now) => now);
}
