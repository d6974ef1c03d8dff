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

/** Of both members on this node. */
export interface EtcdPairConfig extends Omit<ConsensusConfig, 'etcd' | 'ports' | 'quotaBytes' | 'peers'> {
  /** Where the two members listen; those of the others listen at the same ports. */
  readonly ports: Readonly<Record<EtcdName, ListenPorts>>;
  /** The other control planes: their addresses, IPv6 in brackets; none where this is the only one. */
  readonly peerHosts: readonly string[];
}

/** Both members serve. */
export interface RunningEtcdPair extends Disposable {
  readonly state: RunningConsensus;
  readonly kubernetes: RunningConsensus;
}

/**
 * The two etcd clusters of a control plane: one for the cluster's own records, one for Kubernetes
 * (docs/decisions/two-etcd-clusters.md). Each has its own process, user, authorities, data, quota and slot in which its
 * members change; this node is a member of both or of neither.
 */
export class EtcdPair {
  readonly #ports: ConsensusPorts;

  constructor(ports: ConsensusPorts) {
    this.#ports = ports;
  }

  /** See `Consensus.start`; both at once. */
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

  /** See `Consensus.rekey`. `work` is done once both serve with the new authorities, in this node's turn. */
  async rekey(
    config: EtcdPairConfig,
    work: (signal: AbortSignal) => Promise<void>,
    signal: AbortSignal,
  ): Promise<void> {
    const one = new Consensus(this.#ports);
    // Always in this order: a node that has the turn in both never waits for one that has only the second.
    await one.rekey(
      configOf(config, STATE_ETCD),
      (turn) => one.rekey(configOf(config, KUBERNETES_ETCD), work, turn),
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

  /** Throws where `leave` would be refused by one of the two. */
  async checkLeave(config: EtcdPairConfig, signal: AbortSignal): Promise<void> {
    for (const etcd of [KUBERNETES_ETCD, STATE_ETCD])
      await new Consensus(this.#ports).checkLeave(configOf(config, etcd), signal);
  }

  /** Leaves both; see `Consensus.leave`. That of Kubernetes first: a member of the other one alone is what a crash leaves. */
  async leave(config: EtcdPairConfig, signal: AbortSignal): Promise<boolean> {
    await this.checkLeave(config, signal);
    let wasHere = false;
    for (const etcd of [KUBERNETES_ETCD, STATE_ETCD])
      if (await new Consensus(this.#ports).leave(configOf(config, etcd), signal)) wasHere = true;
    await this.#ports.files.remove(`${config.stateDir}/consensus`);
    return wasHere;
  }
}

/** Client endpoints of these hosts, IPv6 in brackets. */
export function clientEndpointsOf(
  hosts: readonly string[],
  { client }: Pick<ListenPorts, 'client'>,
): readonly string[] {
  return hosts.map((host) => `${host}:${client}`);
}

/**
 * Control planes of earlier releases had one etcd for both. Its data is not taken apart: nothing of it is touched,
 * and the release that made it continues to run it.
 * @throws ConsensusError `consensus-single-etcd`
 */
export async function refuseSingleEtcd(files: Pick<FilePort, 'stat'>, stateDir: string): Promise<void> {
  const path = `${stateDir}/etcd/etcd.json`;
  if ((await files.stat(path)) === undefined) return;
  throw new ConsensusError('consensus-single-etcd', `starting etcd: ${path} is of an earlier release`, {
    details: { path },
  });
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
