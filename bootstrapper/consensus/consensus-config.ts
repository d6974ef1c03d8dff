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

export interface ConsensusConfig extends Omit<EtcdSettings, 'origin'> {
  /** Which of the two. */
  readonly etcd: EtcdInstance;
  /** Whether this node creates the cluster: the first member, which makes the authorities too. */
  readonly createsCluster: boolean;
  /** Client endpoints of the other members, "host:port"; none where this is the only one. */
  readonly peers: readonly string[];
  readonly etcdBinary: string;
  /** "/var/lib/cluster" */
  readonly stateDir: string;
  /** Of etcd's certificates; a year unless said, a fraction is fine. */
  readonly validDays?: number | undefined;
  /** How long etcd may take until it serves; a minute unless said. */
  readonly readyTimeoutMs?: number;
}

export interface ConsensusStart extends ConsensusConfig {
  /** A running member is not restarted: it waits for its turn to take new keys (`rekey`), and there may be only one at a time. */
  readonly keepRunning?: boolean;
}

export interface ConsensusPorts {
  readonly files: FilePort;
  readonly commands: CommandRunner;
  readonly units: ServiceUnits;
  readonly clock: Clock;
  readonly log: Logger;
  /** Told while something is waited for: what, and the last error. */
  readonly onWait?: (what: string, lastError: unknown) => void;
}

/** What keeps etcd's members right for as long as this one serves. */
export interface RepairConfig extends Pick<ConsensusConfig, 'etcd' | 'nodeId' | 'ports' | 'stateDir'> {
  /** Client port of the local member that has the records of the nodes. */
  readonly recordsPort: number;
  /** Client endpoints of the other members as they are known now, "host:port". */
  readonly peers: () => readonly string[];
}

/** A member that serves, with its access control switched on. */
export interface RunningConsensus extends Disposable {
  /** The local member as etcd's root; disposed with this. */
  readonly admin: EtcdClient;
  /** "127.0.0.1:2379" */
  readonly endpoint: string;
  readonly metricsUrl: string;
  /** What a client of the local member needs. */
  client(name: EtcdClientName): EtcdClientFiles;
}

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

/** This node's own member, "host:port". */
export function ownEndpointOf(config: Pick<ConsensusConfig, 'ports'>): string {
  return `127.0.0.1:${config.ports.client}`;
}

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
