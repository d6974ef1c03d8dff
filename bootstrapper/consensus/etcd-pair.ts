import type { FilePort } from '../../internal/file/index.ts';
import { forBothEtcds } from './for-both-etcds.ts';
import type { ConsensusConfig, ConsensusPorts, RunningConsensus } from './consensus-config.ts';
import { Consensus } from './consensus.ts';
import { ConsensusError } from './errors.ts';
import {
  KUBERNETES_ETCD,
  QUOTA_BYTES,
  STATE_ETCD,
  type EtcdInstance,
  type EtcdName,
  type ListenPorts,
} from './etcd-instances.ts';

/** The configuration that both members of this node have in common. */
export interface EtcdPairConfig extends Omit<ConsensusConfig, 'etcd' | 'ports' | 'quotaBytes' | 'peers'> {
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

  /** Starts both members in parallel. See `Consensus.start`. */
  async start(
    { keepRunning, ...config }: EtcdPairConfig & { readonly keepRunning?: boolean },
    signal: AbortSignal,
  ): Promise<RunningEtcdPair> {
    const started = await forBothEtcds(
      (etcd, child) =>
        new Consensus(this.#ports).start(
          { ...configOf(config, etcd), ...(keepRunning === undefined ? {} : { keepRunning }) },
          child,
        ),
      signal,
      (running) => running[Symbol.dispose](),
    );
    return runningPair(started);
  }

  /** See `Consensus.renew`. */
  async renew(config: EtcdPairConfig, signal: AbortSignal): Promise<RunningEtcdPair> {
    const renewed = await forBothEtcds(
      (etcd) => new Consensus(this.#ports).renew(configOf(config, etcd)),
      signal,
      (running) => running[Symbol.dispose](),
    );
    return runningPair(renewed);
  }

  /** See `Consensus.rekey`. `work` runs once both members serve with the new CAs, while this node holds both slots. */
  async rekey(
    config: EtcdPairConfig,
    work: (signal: AbortSignal) => Promise<void>,
    signal: AbortSignal,
  ): Promise<void> {
    const one = new Consensus(this.#ports);
    // The order must be the same on all nodes: otherwise two nodes could each hold one slot and wait for the
    // other slot.
    await one.rekey(
      configOf(config, STATE_ETCD),
      (holding) => one.rekey(configOf(config, KUBERNETES_ETCD), work, holding),
      signal,
    );
  }

  /** See `Consensus.repair`. */
  async repair(
    config: Pick<EtcdPairConfig, 'nodeId' | 'stateDir' | 'ports'> & {
      readonly peerHosts: () => readonly string[];
    },
    signal: AbortSignal,
  ): Promise<void> {
    const { nodeId, stateDir, ports, peerHosts } = config;
    await forBothEtcds((etcd, child) => {
      const own = ports[etcd.name];
      const at = { etcd, nodeId, stateDir, ports: own, recordsPort: ports.state.client };
      const peers = (): readonly string[] => clientEndpointsOf(peerHosts(), own);
      return new Consensus(this.#ports).repair({ ...at, peers }, child);
    }, signal);
  }

  /** Throws where one of the two members could not leave. See `Consensus.checkLeave`. */
  async checkLeave(config: EtcdPairConfig, signal: AbortSignal): Promise<void> {
    for (const etcd of [KUBERNETES_ETCD, STATE_ETCD])
      await new Consensus(this.#ports).checkLeave(configOf(config, etcd), signal);
  }

  /**
   * See `Consensus.leave`. Leaves the Kubernetes etcd first: after a crash in between, this node is still a
   * member of the state etcd.
   */
  async leave(config: EtcdPairConfig, signal: AbortSignal): Promise<boolean> {
    await this.checkLeave(config, signal);
    let wasHere = false;
    for (const etcd of [KUBERNETES_ETCD, STATE_ETCD])
      if (await new Consensus(this.#ports).leave(configOf(config, etcd), signal)) wasHere = true;
    await this.#ports.files.remove(`${config.stateDir}/consensus`);
    return wasHere;
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
  throw new ConsensusError(
    'consensus-single-etcd',
    `starting etcd: ${path} was written by an earlier release`,
    {
      details: { path },
    },
  );
}

function configOf({ peerHosts, ports, ...config }: EtcdPairConfig, etcd: EtcdInstance): ConsensusConfig {
  const { name } = etcd;
  return {
    ...config,
    etcd,
    ports: ports[name],
    quotaBytes: QUOTA_BYTES[name],
    peers: clientEndpointsOf(peerHosts, ports[name]),
  };
}

function runningPair({ state, kubernetes }: Readonly<Record<EtcdName, RunningConsensus>>): RunningEtcdPair {
  return {
    state,
    kubernetes,
    [Symbol.dispose]: () => {
      state[Symbol.dispose]();
      kubernetes[Symbol.dispose]();
    },
  };
}
