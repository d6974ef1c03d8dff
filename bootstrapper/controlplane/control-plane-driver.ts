import { MINUTES_PER_DAY } from '../../internal/clock/index.ts';
import { type EtcdClient, Namespace } from '../../internal/etcd/index.ts';
import { currentValue } from '../../internal/event/index.ts';
import type { SystemPorts } from '../../internal/platform/index.ts';
import { CLUSTER_PREFIX } from '../../internal/records/index.ts';
import {
  ConsensusError,
  consensusLayout,
  ETCD_PORTS,
  type EtcdName,
  EtcdPair,
  type EtcdPairConfig,
  readOwnership,
  type RunningEtcdPair,
  saveInitResult,
  saveOwnership,
  writeEpoch,
} from '../consensus/index.ts';
import { JOINSERVICE_UNIT } from '../units/index.ts';
import { urlHost } from '../../internal/endpoint/index.ts';
import type { Membership } from '../membership/index.ts';
import { followRecordedPersons, PATHS, retireControlPlane, type RetirePorts } from '../kubernetes/index.ts';
import { refuseOtherAddress } from '../preflight/index.ts';
import {
  type BootstrapData,
  type ControlPlaneDriver,
  type ControlPlaneStart,
  type LocalControlPlane,
  type MemberState,
  type RoleValues,
  type Say,
  settingsFromSpec,
} from '../roleserve/index.ts';
import { ensureClusterCa, removeCuratorCredentials } from '../credentials/index.ts';
import { createFirstRecords } from './create-first-records.ts';
import { DisposableHolder } from './disposable-holder.ts';
import { AGENT_PATHS, type NodeState } from '../nodestate/index.ts';
import { restoreEtcdData, startKubernetesEpoch, type Snapshots } from './restore-etcd.ts';
import { RestartableTask } from './restartable-task.ts';
import { startCurator, webhookOf, type CuratorMachine } from './start-curator.ts';

/** Ports (injected dependencies) of the control plane driver. */
export interface ControlPlaneDriverPorts extends SystemPorts {
  readonly state: NodeState;
  /** Ports (injected dependencies) for the removal of the Kubernetes control plane from this node. */
  readonly retire: RetirePorts;
}

/** This machine, with the values that its workers have published about its cluster. */
export interface ControlPlaneDriverOptions extends CuratorMachine {
  readonly ownAddress: () => string;
  readonly values: Pick<RoleValues, 'clusterMembership' | 'clusterDirectory'>;
  /** The addresses that this machine has now. */
  readonly addresses: () => readonly string[];
  /** Whether new keys are on disk but not active yet. Until they are active, no process is restarted. */
  readonly isKeyChangePending: () => Promise<boolean>;
  /** The uploaded snapshots of a cluster that is restored. */
  readonly snapshots: Snapshots;
}

/** Clients of both etcd members on this node. */
export type EtcdMembers = Readonly<Record<EtcdName, EtcdClient>>;

/** Runs etcd, the first records and the curator on this machine. */
export class MachineControlPlaneDriver implements ControlPlaneDriver {
  readonly #ports: ControlPlaneDriverPorts;
  readonly #options: ControlPlaneDriverOptions;
  readonly #running = new DisposableHolder<RunningEtcdPair>();
  readonly #repairs = new RestartableTask();

  constructor(ports: ControlPlaneDriverPorts, options: ControlPlaneDriverOptions) {
    this.#ports = ports;
    this.#options = options;
  }

  /** The records of the cluster in the local state etcd; undefined while etcd does not run. */
  get records(): Namespace | undefined {
    const admin = this.#running.value?.state.admin;
    return admin && new Namespace(admin, CLUSTER_PREFIX);
  }

  /** Clients of both local etcd members with root credentials, while they run. */
  etcdMembers(): EtcdMembers | undefined {
    const { value } = this.#running;
    return value && { state: value.state.admin, kubernetes: value.kubernetes.admin };
  }

  async startConsensus(start: ControlPlaneStart, say: Say, signal: AbortSignal): Promise<void> {
    const { ownAddress, addresses } = this.#options;
    const own =
      start.kind === 'bootstrap'
        ? { clusterId: start.data.spec.clusterId, address: ownAddress() }
        : { clusterId: start.membership.clusterId, address: start.membership.nodeAddress };
    refuseOtherAddress(own.address, addresses());
    const peerHosts = start.kind === 'bootstrap' ? [] : this.#peersOf(start.membership);
    this.#running.clear();
    const config = {
      ...this.#configOf(own, peerHosts),
      createsCluster: start.kind === 'bootstrap',
      keepRunning: await this.#options.isKeyChangePending(),
    };
    if (start.kind === 'bootstrap' && start.data.spec.restore !== undefined)
      await restoreEtcdData(this.#ports, start.data.spec.restore, {
        member: config,
        snapshots: this.#options.snapshots,
        signal,
      });
    this.#running.set(await this.#etcdPair(say).start(config, signal));
  }

  async createCluster(data: BootstrapData, signal: AbortSignal): Promise<MemberState> {
    const { admin } = this.#etcd().state;
    const { files, clock, state } = this.#ports;
    const { machine, evidence, ownAddress, owners } = this.#options;
    const nowMs = (): number => clock.nowMs();
    if (data.spec.restore !== undefined)
      await startKubernetesEpoch(files, this.#etcd().kubernetes.admin, data.spec.restore, signal);
    const authority = await ensureClusterCa(
      { files, nowMs },
      { directory: AGENT_PATHS.ca, clusterName: data.spec.clusterName },
    );
    const created = await createFirstRecords(
      { admin, authority, nowMs },
      { data, machine, evidence, address: ownAddress(), owners, signal },
    );
    // The membership file is written last: an agent that finds this file when it starts resumes as a member, and then
    // needs the credentials and the settings too.
    if (data.spec.restore !== undefined)
      await writeEpoch(files, consensusLayout(AGENT_PATHS.state, 'state'), created.membership.epoch);
    await state.settings.save(settingsFromSpec(data.spec));
    await state.roles.save(created.roles);
    await state.membership.save(created.membership);
    return { membership: created.membership, roles: new Set(created.roles) };
  }

  async startCurator(membership: Membership, signal: AbortSignal, say?: Say): Promise<LocalControlPlane> {
    return startCurator(this.#ports, { ...this.#options, membership, etcd: this.#etcd(), signal, say });
  }

  async followPersons(membership: Membership, signal: AbortSignal): Promise<void> {
    const webhook = () => webhookOf(this.#membership() ?? membership, this.#etcd());
    await followRecordedPersons(this.#ports, webhook, signal);
  }

  /** Renews the credentials of join service and curator; does nothing when they do not run. */
  async renewCurator(signal: AbortSignal): Promise<void> {
    const membership = this.#membership();
    if (membership !== undefined && this.#running.value !== undefined)
      await this.startCurator(membership, signal);
  }

  /**
   * Renews the certificates of etcd and restarts the services that use them; does nothing when etcd does not
   * run yet.
   */
  async renewConsensus(signal: AbortSignal): Promise<void> {
    const [config, membership] = [this.#memberConfig(), this.#membership()];
    const before = this.#running.value;
    if (config === undefined || membership === undefined || before === undefined) return;
    const renewed = await this.#etcdPair().renew(config, signal);
    // If this node lost its role in the meantime, the curator must not start.
    if (!this.#running.replace(before, renewed)) return;
    this.#repairs.restart();
    await this.startCurator(membership, signal);
  }

  /**
   * Activates replaced CAs of etcd and then runs `work`. This node holds the membership slots of etcd
   * meanwhile, so that only one control plane restarts at a time.
   */
  async rekey(
    work: (signal: AbortSignal) => Promise<void>,
    say: (what: string) => void,
    signal: AbortSignal,
  ): Promise<void> {
    const config = this.#memberConfig();
    if (config === undefined) throw new TypeError('called before this node is a member');
    const inSlot = async (slotSignal: AbortSignal): Promise<void> => {
      await this.renewConsensus(slotSignal);
      await work(slotSignal);
    };
    await this.#etcdPair(say).rekey(config, inSlot, signal);
  }

  async repairMembers(signal: AbortSignal): Promise<void> {
    const { nodeId } = this.#options.machine;
    const peerHosts = (): readonly string[] => {
      const membership = this.#membership();
      return membership === undefined ? [] : this.#peersOf(membership);
    };
    for (;;) {
      try {
        const config = { nodeId, stateDir: AGENT_PATHS.state, ports: ETCD_PORTS, peerHosts };
        return await this.#repairs.run((slotSignal) => this.#etcdPair().repair(config, slotSignal), signal);
      } catch (error) {
        const membership = this.#membership();
        const isOutdated = error instanceof ConsensusError && error.code === 'consensus-outdated';
        if (!isOutdated || membership === undefined) throw error;
        this.#ports.log.warn('control plane has missed a recovery of the quorum, restarting it', { error });
        await this.startConsensus({ kind: 'serve', membership }, () => undefined, signal);
      }
    }
  }

  async checkStop(signal: AbortSignal): Promise<void> {
    const config = this.#memberConfig();
    if (config !== undefined) await this.#etcdPair().checkLeave(config, signal);
  }

  /** Stops in this order: balancer entries, API server and controllers, curator, etcd; then deletes the shared keys. */
  async stop(signal: AbortSignal): Promise<void> {
    const { files, units, retire } = this.#ports;
    const membership = this.#membership();
    const config = this.#memberConfig();
    if (membership === undefined || config === undefined) return;
    // These files are deleted first. Otherwise an agent that restarts in between would restore the keys from them.
    for (const path of [AGENT_PATHS.rotation, AGENT_PATHS.newKeys]) await files.remove(path);
    await retireControlPlane(retire, { ...membership, signal });
    await units.stop(JOINSERVICE_UNIT, signal);
    await removeCuratorCredentials(files);
    this.#running.clear();
    await this.#etcdPair().leave(config, signal);
    await files.remove(AGENT_PATHS.diskShares);
    await files.remove(AGENT_PATHS.ca);
  }

  /** Records the owner's signature over cluster id, CA and epoch. Join services send it to machines that join. */
  async saveOwnership(ownership: Parameters<typeof saveOwnership>[1], signal: AbortSignal): Promise<void> {
    await saveOwnership(this.#requireRecords(), ownership, signal);
  }

  /** The recorded signature of the owner in base64; undefined if none is recorded. */
  async loadOwnership(signal: AbortSignal): Promise<string | undefined> {
    return readOwnership(this.#requireRecords(), signal);
  }

  /** Records the result of the init, so that every curator can give it to the owner. */
  async saveInitResult(initId: string, result: Uint8Array, signal: AbortSignal): Promise<void> {
    await saveInitResult(this.#requireRecords(), { initId, result }, signal);
  }

  #requireRecords(): Namespace {
    if (this.records === undefined) throw new TypeError('running etcd expected');
    return this.records;
  }

  #membership(): Membership | undefined {
    return currentValue(this.#options.values.clusterMembership);
  }

  #memberConfig(): EtcdPairConfig | undefined {
    const membership = this.#membership();
    if (membership === undefined) return undefined;
    const { clusterId, nodeAddress: address } = membership;
    return { ...this.#configOf({ clusterId, address }, this.#peersOf(membership)), createsCluster: false };
  }

  #configOf(
    own: { readonly clusterId: string; readonly address: string },
    peerHosts: readonly string[],
  ): Omit<EtcdPairConfig, 'createsCluster'> {
    return {
      ...own,
      nodeId: this.#options.machine.nodeId,
      ports: ETCD_PORTS,
      peerHosts,
      etcdBinary: `${PATHS.bin}/etcd`,
      stateDir: AGENT_PATHS.state,
      validDays: this.#options.lifetimes().controlPlaneMinutes / MINUTES_PER_DAY,
    };
  }

  /** Hosts of the other control planes, from the newest directory of control planes. */
  #peersOf(membership: Membership): readonly string[] {
    const known = currentValue(this.#options.values.clusterDirectory) ?? membership.directory;
    const others = known.filter(({ nodeId }) => nodeId !== membership.nodeId);
    return others.map(({ host }) => urlHost(host));
  }

  #etcdPair(say?: Say): EtcdPair {
    return new EtcdPair({
      ...this.#ports,
      onWait: (what, lastError) => say?.(`waiting for ${what}`, lastError),
    });
  }

  #etcd(): RunningEtcdPair {
    const { value } = this.#running;
    if (value === undefined) throw new TypeError('running etcd expected');
    return value;
  }
}
