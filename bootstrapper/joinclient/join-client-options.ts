import type { Clock } from '../../internal/clock/index.ts';
import type { PinnedCluster } from '../../internal/config/index.ts';
import type { Logger } from '../../internal/logging/index.ts';
import type { EndpointSource } from './discovery.ts';
import type { Introduction, SessionPorts } from './join-session.ts';
import type { ResolveName } from './name-lookup.ts';
import type { TicketKeyRing } from './ticket-keys.ts';
import type { KnownCa } from './cluster-cas.ts';

/** Ports (injected dependencies) of the join client. */
export interface JoinClientPorts extends SessionPorts {
  readonly clock: Clock;
  readonly log: Logger;
  readonly random: () => number;
  readonly lookUp: ResolveName;
  /** The keys that tickets are requested for. The kubelet keys are the same at each call. */
  readonly keys: () => Promise<TicketKeyRing>;
  /** Checks the requirements of a member before the machine requests admission. @throws PreflightError */
  readonly checkMachine: () => Promise<void>;
}

/** The identity of this machine, and the clusters that it trusts. */
export interface JoinClientOptions {
  readonly sources: readonly EndpointSource[];
  readonly ownerKeys: readonly [Uint8Array, ...Uint8Array[]];
  /** The cluster for which the machine was provisioned, if its provisioning names one of the owners' clusters. */
  readonly pinned: PinnedCluster | undefined;
  /** The cluster CA that this machine knows now: from its membership, else from its provisioning. */
  readonly readKnownCa: () => Promise<KnownCa>;
  /** Proxies in the environment of the agent, which `cluster explain` shows. */
  readonly proxies: readonly string[];
  readonly nodeId: string;
  readonly pubKeyDer: Uint8Array;
  /** The current description of this machine. */
  readonly introduction: () => Omit<Introduction, 'facts'>;
  readonly ownAddress: () => string;
  readonly keyNames: readonly string[];
  /** Names of shared keys that not every cluster has. */
  readonly optionalKeyNames: readonly string[];
}
