import type { Clock } from '../../../internal/clock/index.ts';
import type { EtcdSettings } from '../unit/etcd-unit.ts';
import type { EtcdInstance, ListenPorts } from '../etcd-instances.ts';
import type { ConsensusLayout } from '../consensus-layout.ts';
import type { RunEtcdPorts } from '../unit/run-etcd.ts';

/** Ports (injected dependencies) of a recovery. */
export interface RecoverPorts extends RunEtcdPorts {
  readonly clock: Clock;
}

/** Configuration of the member from which the quorum is recovered. */
export interface RecoverConfig extends Omit<EtcdSettings, 'origin'> {
  readonly etcd: EtcdInstance;
  /** Client endpoints of the other members, "host:port". */
  readonly peers: readonly string[];
  readonly etcdBinary: string;
  readonly etcdctlBinary: string;
  readonly etcdutlBinary: string;
  readonly stateDir: string;
  readonly layout: ConsensusLayout;
  /** Free loopback ports for a temporary member. */
  readonly recoveryPorts: ListenPorts;
}
