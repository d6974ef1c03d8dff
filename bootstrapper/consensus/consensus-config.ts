import type { EtcdClient } from '../../internal/etcd/index.ts';
import type { SystemPorts } from '../../internal/platform/index.ts';
import type { EtcdClientFiles } from './consensus-layout.ts';
import type { EtcdClientName } from './etcd-instances.ts';
import type { OwnMember } from './membership/membership.ts';
import type { NewestEpoch } from './recovery/epoch.ts';
import { urlOf, type EtcdSettings } from './unit/etcd-unit.ts';

/** Configuration of one member of one etcd cluster. */
export interface ConsensusConfig extends EtcdSettings {
  /** Whether this node creates the cluster: it then is the first member and creates the CAs. */
  readonly createsCluster: boolean;
  /** Client endpoints of the other members, "host:port"; empty if this is the only member. */
  readonly peers: readonly string[];
  /** Lifetime of the certificates in days, fractions allowed; default: 365. */
  readonly validDays?: number | undefined;
  /** Milliseconds within which etcd must serve requests; default: 60,000. */
  readonly readyTimeoutMs?: number;
}

/** Configuration for starting a member. */
export interface ConsensusStart extends ConsensusConfig {
  /**
   * Whether a running member must not be restarted now. `rekey` restarts it later, while this node holds the
   * slot for changing the members.
   */
  readonly keepRunning?: boolean | undefined;
  /**
   * Called with the members of the newest epoch before the data of an older epoch is deleted. Rejects if this node may not join them.
   */
  readonly beforeRejoin?: ((newest: NewestEpoch, signal: AbortSignal) => Promise<void>) | undefined;
}

/** Ports (injected dependencies) of an etcd member. */
export interface ConsensusPorts extends SystemPorts {
  /** Called while the member waits, with the reason ("waiting for …") and the last error. */
  readonly onWait?: (what: string, lastError: unknown) => void;
}

/** Configuration for the removal of lost members while this member serves. */
export interface RepairConfig extends Pick<ConsensusConfig, 'etcd' | 'nodeId' | 'ports' | 'layout'> {
  /** Client port of the local member of the state etcd, which stores the records of the nodes. */
  readonly recordsPort: number;
  /**
   * Returns the client endpoints of the other members, "host:port". Called repeatedly, because they change.
   */
  readonly peers: () => readonly string[];
}

/** A member that serves requests and has access control enabled. */
export interface RunningConsensus extends Disposable {
  /** Client of the local member, authenticated as etcd's root user. Disposed with this object. */
  readonly admin: EtcdClient;
  /** Client endpoint of the local member, e.g. "127.0.0.1:2379". */
  readonly endpoint: string;
  readonly metricsUrl: string;
  /** Endpoint and certificate files with which the named client connects to the local member. */
  client(name: EtcdClientName): EtcdClientFiles;
}

/** Builds a `RunningConsensus` from a member's client and configuration. */
export function runningFrom(admin: EtcdClient, config: ConsensusConfig): RunningConsensus {
  const endpoint = ownEndpointOf(config);
  return {
    admin,
    endpoint,
    metricsUrl: `http://127.0.0.1:${config.ports.metrics}/metrics`,
    client: (name) => {
      const { caFile, certFile, keyFile } = config.layout.user(name);
      return { endpoint: `https://${endpoint}`, caFile, certFile, keyFile };
    },
    [Symbol.dispose]: () => admin[Symbol.dispose](),
  };
}

/** Client endpoint of the local member, "127.0.0.1:PORT". */
export function ownEndpointOf(config: Pick<ConsensusConfig, 'ports'>): string {
  return `127.0.0.1:${config.ports.client}`;
}

/** This node as a member of etcd, built from its configuration. */
export function ownMemberOf({ nodeId, address, ports }: ConsensusConfig): OwnMember {
  return { nodeId, peerUrl: urlOf(address, ports.peer) };
}
