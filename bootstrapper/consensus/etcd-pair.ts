import { childSignal } from '../../internal/cleanup/index.ts';
import { hostOf } from '../../internal/endpoint/index.ts';
import type { FilePort } from '../../internal/file/index.ts';
import type { ConsensusConfig, ConsensusPorts, RunningConsensus } from './consensus-config.ts';
import { consensusLayout } from './consensus-layout.ts';
import { renewMember, repairMember, startMember } from './consensus.ts';
import { ConsensusError } from './errors.ts';
import { requireOwnRecord } from './membership/require-own-record.ts';
import { checkLeave, leaveEtcd } from './membership/leave-etcd.ts';
import type { NewestEpoch } from './recovery/epoch.ts';
import { rekey } from './pki/rekey.ts';
import {
  ETCD_INSTANCES,
  KUBERNETES_ETCD,
  QUOTA_BYTES,
  STATE_ETCD,
  type EtcdInstance,
  type EtcdName,
  type ListenPorts,
} from './etcd-instances.ts';

/** The configuration that both members of this node have in common. */
export interface EtcdPairConfig extends Omit<
  ConsensusConfig,
  'etcd' | 'ports' | 'quotaBytes' | 'peers' | 'layout'
> {
  /** State directory of the agent, e.g. "/var/lib/cluster". */
  readonly stateDir: string;
  /** Ports of the two members. All nodes use the same ports. */
  readonly ports: Readonly<Record<EtcdName, ListenPorts>>;
  /** Addresses of the other control planes, IPv6 in brackets; empty if this is the only control plane. */
  readonly peerHosts: readonly string[];
}

/** Both members of this node while they serve. */
export interface RunningEtcdPair extends Disposable {
  readonly state: RunningConsensus;
  readonly kubernetes: RunningConsensus;
}

/**
 * The two etcd members of a control plane: one for the records of the cluster, one for Kubernetes
 * (docs/decisions/two-etcd-clusters.md). Each has its own process, user, CAs, data, quota and membership slot. A node is a
 * member of both or of neither.
 */
export class EtcdPair {
  readonly #ports: ConsensusPorts;

  constructor(ports: ConsensusPorts) {
    this.#ports = ports;
  }

  /** Starts both members in parallel. See `startMember`. */
  start(
    { keepRunning, ...config }: EtcdPairConfig & { readonly keepRunning?: boolean },
    signal: AbortSignal,
  ): Promise<RunningEtcdPair> {
    const { layout, nodeId } = configOf(config, STATE_ETCD);
    // Only the control planes of the newest epoch are asked. Those of an older one still have the record of a node that is removed.
    const beforeRejoin = (newest: NewestEpoch, child: AbortSignal): Promise<void> => {
      const endpoints = clientEndpointsOf(newest.endpoints.map(hostOf), config.ports.state);
      return requireOwnRecord(this.#ports, { layout, nodeId, endpoints }, child);
    };
    return runningPair(
      (etcd, child) =>
        startMember(this.#ports, { ...configOf(config, etcd), keepRunning, beforeRejoin }, child),
      signal,
    );
  }

  /** See `renewMember`. */
  renew(config: EtcdPairConfig, signal: AbortSignal): Promise<RunningEtcdPair> {
    return runningPair((etcd) => renewMember(this.#ports, configOf(config, etcd)), signal);
  }

  /**
   * See `rekey`. `work` runs once both members serve with the new CAs, while this node holds the membership
   * slots of both clusters.
   */
  async rekey(
    config: EtcdPairConfig,
    work: (signal: AbortSignal) => Promise<void>,
    signal: AbortSignal,
  ): Promise<void> {
    // The order must be the same on all nodes. Otherwise two nodes could each hold the membership slot of one etcd
    // cluster and wait for the slot that the other node holds.
    await rekey(
      this.#ports,
      configOf(config, STATE_ETCD),
      (holding) => rekey(this.#ports, configOf(config, KUBERNETES_ETCD), work, holding),
      signal,
    );
  }

  /** See `repairMember`. */
  async repair(
    config: Pick<EtcdPairConfig, 'nodeId' | 'stateDir' | 'ports'> & {
      readonly peerHosts: () => readonly string[];
    },
    signal: AbortSignal,
  ): Promise<void> {
    const { nodeId, stateDir, ports, peerHosts } = config;
    await forBothEtcds((etcd, child) => {
      const own = ports[etcd.name];
      const at = { etcd, nodeId, ports: own, recordsPort: ports.state.client };
      const layout = consensusLayout(stateDir, etcd.name);
      const peers = (): readonly string[] => clientEndpointsOf(peerHosts(), own);
      return repairMember(this.#ports, { ...at, layout, peers }, child);
    }, signal);
  }

  /** Throws if one of the two members could not leave. See `checkLeave`. */
  async checkLeave(config: EtcdPairConfig, signal: AbortSignal): Promise<void> {
    for (const etcd of [KUBERNETES_ETCD, STATE_ETCD])
      await checkLeave(this.#ports, configOf(config, etcd), signal);
  }

  /**
   * See `leaveEtcd`. Leaves the Kubernetes etcd first: after a crash in between, this node is still a
   * member of the state etcd.
   */
  async leave(config: EtcdPairConfig, signal: AbortSignal): Promise<void> {
    await this.checkLeave(config, signal);
    for (const etcd of [KUBERNETES_ETCD, STATE_ETCD])
      await leaveEtcd(this.#ports, configOf(config, etcd), signal);
    await this.#ports.files.remove(`${config.stateDir}/consensus`);
  }
}

/** Client endpoints "host:port" of these hosts. An IPv6 host must be in brackets. */
export function clientEndpointsOf(
  hosts: readonly string[],
  { client }: Pick<ListenPorts, 'client'>,
): readonly string[] {
  return hosts.map((host) => `${host}:${client}`);
}

/**
 * Refuses to start a control plane of an earlier release, which had a single etcd for all data. That data is
 * neither converted nor changed.
 * @throws ConsensusError `consensus-single-etcd`
 */
export async function refuseSingleEtcd(files: Pick<FilePort, 'stat'>, stateDir: string): Promise<void> {
  const path = `${stateDir}/etcd/etcd.json`;
  if ((await files.stat(path)) === undefined) return;
  const message = `starting etcd: ${path} was written by an earlier release`;
  throw new ConsensusError('consensus-single-etcd', message, { details: { path } });
}

function configOf(
  { peerHosts, ports, stateDir, ...config }: EtcdPairConfig,
  etcd: EtcdInstance,
): ConsensusConfig {
  const { name } = etcd;
  return {
    ...config,
    etcd,
    ports: ports[name],
    quotaBytes: QUOTA_BYTES[name],
    peers: clientEndpointsOf(peerHosts, ports[name]),
    layout: consensusLayout(stateDir, name),
  };
}

async function runningPair(
  run: (etcd: EtcdInstance, signal: AbortSignal) => Promise<RunningConsensus>,
  signal: AbortSignal,
): Promise<RunningEtcdPair> {
  const { state, kubernetes } = await forBothEtcds(run, signal, (running) => running[Symbol.dispose]());
  return {
    state,
    kubernetes,
    [Symbol.dispose]: () => {
      state[Symbol.dispose]();
      kubernetes[Symbol.dispose]();
    },
  };
}

/**
 * Runs `work` for both etcd clusters in parallel. The first failure aborts the work for the other cluster and
 * is thrown once that work has ended. `dispose` is called for the result that is then not returned.
 */
async function forBothEtcds<T>(
  work: (etcd: EtcdInstance, signal: AbortSignal) => Promise<T>,
  signal: AbortSignal,
  dispose: (done: T) => void = () => undefined,
): Promise<Readonly<Record<EtcdName, T>>> {
  using running = childSignal(signal);
  let first: { readonly error: unknown } | undefined;
  const one = async (name: EtcdName): Promise<T | undefined> => {
    try {
      return await work(ETCD_INSTANCES[name], running.signal);
    } catch (error) {
      first ??= { error };
      running.abort(error);
      return undefined;
    }
  };
  const [state, kubernetes] = await Promise.all([one('state'), one('kubernetes')]);
  if (first === undefined) return { state: state as T, kubernetes: kubernetes as T };
  for (const done of [state, kubernetes]) if (done !== undefined) dispose(done);
  throw first.error;
}
