import type { Clock } from '../../internal/clock/index.ts';
import type { EtcdClient } from '../../internal/etcd/index.ts';
import type { CommandRunner } from '../../internal/exec/index.ts';
import type { FilePort } from '../../internal/file/index.ts';
import type { Logger } from '../../internal/logging/index.ts';
import { urlOf, type EtcdSettings } from './unit/etcd-unit.ts';
import type { EtcdClientName, EtcdInstance } from './etcd-instances.ts';
import type { ConsensusLayout, EtcdClientFiles } from './consensus-layout.ts';
import type { OwnMember } from './membership/membership.ts';
import type { ServiceUnits } from '../units/index.ts';

/** One member of one etcd cluster. */
export interface ConsensusConfig extends Omit<EtcdSettings, 'origin'> {
  readonly etcd: EtcdInstance;
  /** Whether this node creates the cluster: it is the first member and creates the CAs. */
  readonly createsCluster: boolean;
  /** Client endpoints of the other members, "host:port"; none where this is the only one. */
  readonly peers: readonly string[];
  readonly etcdBinary: string;
  /** "/var/lib/cluster" */
  readonly stateDir: string;
  /** Lifetime of the certificates, fractions allowed; default: 365. */
  readonly validDays?: number | undefined;
  /** Time until etcd must serve; default: 60,000. */
  readonly readyTimeoutMs?: number;
}

/** A member that is started. */
export interface ConsensusStart extends ConsensusConfig {
  /** Whether a running member is not restarted now: `rekey` restarts it when it holds the slot. */
  readonly keepRunning?: boolean;
}

/** What an etcd member uses of the machine. */
export interface ConsensusPorts {
  readonly files: FilePort;
  readonly commands: CommandRunner;
  readonly units: ServiceUnits;
  readonly clock: Clock;
  readonly log: Logger;
  /** Called while the member waits: what for ("waiting for …"), and the last error. */
  readonly onWait?: (what: string, lastError: unknown) => void;
}

/** Removal of lost members while this one serves. */
export interface RepairConfig extends Pick<ConsensusConfig, 'etcd' | 'nodeId' | 'ports' | 'stateDir'> {
  /** Client port of the local member of the state etcd, which has the records of the nodes. */
  readonly recordsPort: number;
  /** Returns the client endpoints of the other members, "host:port"; called again and again. */
  readonly peers: () => readonly string[];
}

/** A member that serves, with access control enabled. */
export interface RunningConsensus extends Disposable {
  /** Client of the local member as etcd's root user; disposed with this object. */
  readonly admin: EtcdClient;
  /** "127.0.0.1:2379" */
  readonly endpoint: string;
  readonly metricsUrl: string;
  /** Endpoint and certificate files for a client of the local member. */
  client(name: EtcdClientName): EtcdClientFiles;
}

/** A running member from its client and configuration. */
export function runningFrom(
  admin: EtcdClient,
  config: ConsensusConfig,
  layout: ConsensusLayout,
): RunningConsensus {
  return {
    admin,
    endpoint: ownEndpointOf(config),
    metricsUrl: `http://127.0.0.1:${config.ports.metrics}/metrics`,
    client: (name) => clientFiles(config, layout, name),
    [Symbol.dispose]: () => admin[Symbol.dispose](),
  };
}

/** Client endpoint of the local member, "127.0.0.1:PORT". */
export function ownEndpointOf(config: Pick<ConsensusConfig, 'ports'>): string {
  return `127.0.0.1:${config.ports.client}`;
}

/** This node as a member of etcd. */
export function ownMemberOf({ nodeId, address, ports }: ConsensusConfig): OwnMember {
  return { nodeId, peerUrl: urlOf(address, ports.peer) };
}

function clientFiles(
  config: ConsensusConfig,
  layout: ConsensusLayout,
  name: EtcdClientName,
): EtcdClientFiles {
  const { caFile, certFile, keyFile } = layout.user(name);
  return { endpoint: `https://${ownEndpointOf(config)}`, caFile, certFile, keyFile };
}
