import { childSignal } from '../../internal/cleanup/index.ts';
import type { EtcdClient } from '../../internal/etcd/index.ts';
import {
  ownEndpointOf,
  runningFrom,
  type ConsensusConfig,
  type ConsensusPorts,
  type ConsensusStart,
  type RepairConfig,
  type RunningConsensus,
} from './consensus-config.ts';
import { inspectDisk } from './pki/disk-state.ts';
import { updatePeerUrl, joinEtcd, resumeMember } from './membership/join-etcd.ts';
import { fetchEpoch, ensureEpoch, readEpoch, writeEpoch } from './recovery/epoch.ts';
import { ConsensusError } from './errors.ts';
import type { PkiPorts } from './pki/ensure-certificates.ts';
import { STATE_ETCD, type EtcdInstance } from './etcd-instances.ts';
import { consensusLayout, type ConsensusLayout } from './consensus-layout.ts';
import { checkLeave, leaveEtcd } from './membership/leave-etcd.ts';
import { PeerEpochs } from './recovery/peer-epochs.ts';
import { findNewestEpoch } from './membership/peers.ts';
import { ensurePki } from './pki/ensure-pki.ts';
import { rekey } from './pki/rekey.ts';
import { repairMembers } from './membership/repair-members.ts';
import { connectAsRoot, originOf, runEtcd } from './unit/run-etcd.ts';
import { hasUsableData } from './membership/usable-data.ts';

const KEYS_POLL_MS = 500;
/** Pause between two requests for the epochs of the other members. */
const EPOCH_POLL_MS = 10_000;

/**
 * One etcd member on this node: its PKI, unit and access control. `start` may be repeated at any time and
 * after any crash: it creates missing files and keeps valid ones. A running etcd is restarted only if its
 * configuration has changed.
 */
export class Consensus {
  readonly #ports: ConsensusPorts;
  readonly #pki: PkiPorts;

  constructor(ports: ConsensusPorts) {
    this.#ports = ports;
    this.#pki = { files: ports.files, nowMs: () => ports.clock.nowMs() };
  }

  /**
   * Creates or joins the etcd cluster, or starts the existing member. Resolves when the member serves
   * requests.
   */
  async start(
    { keepRunning = false, ...config }: ConsensusStart,
    signal: AbortSignal,
  ): Promise<RunningConsensus> {
    const ports = this.#ports;
    const layout = consensusLayout(config.stateDir, config.etcd.name);
    if (!config.createsCluster) await this.#waitForKeys(layout, signal);
    await ensurePki(this.#pki, config, layout);
    const admin = await connectAsRoot(ports, layout, [ownEndpointOf(config)]);
    try {
      const newest = await findNewestEpoch(ports, config.createsCluster ? [] : config.peers, {
        config,
        layout,
        signal,
      });
      // Use only members of the newest epoch: members that missed a recovery would add this node to an
      // outdated etcd cluster.
      const current = newest.epoch === 0 ? config : { ...config, peers: newest.endpoints };
      const context = { config: current, layout, admin, signal };
      if (!config.createsCluster && !(await hasUsableData(ports, { ...context, newest })))
        await joinEtcd(ports, context);
      else {
        const origin = await originOf(ports.files, layout);
        await runEtcd(ports, { ...config, layout, settings: { ...config, origin }, keepRunning }, signal);
        await resumeMember(ports, context);
      }
      await ports.files.createExclusive(layout.memberMarker, `${config.clusterId}\n`);
      await enableAccessControl(admin, config.etcd, signal);
      await updatePeerUrl(ports, context);
      await ensureEpoch(admin, config.etcd.name, signal);
      const epoch = await fetchEpoch(admin, config.etcd.name, signal);
      if (epoch !== undefined) await writeEpoch(ports.files, layout, epoch);
    } catch (error) {
      admin[Symbol.dispose]();
      throw error;
    }
    return runningFrom(admin, config, layout);
  }

  /**
   * Renews the certificates that are due. etcd and the API server read their certificates for each
   * connection. This process and the curator need a new client, which this method returns.
   */
  async renew(config: ConsensusConfig): Promise<RunningConsensus> {
    const layout = consensusLayout(config.stateDir, config.etcd.name);
    await ensurePki(this.#pki, config, layout);
    return runningFrom(await connectAsRoot(this.#ports, layout, [ownEndpointOf(config)]), config, layout);
  }

  /**
   * Restarts etcd after its CAs were replaced on disk, and then runs `work`. This node holds the membership
   * slot during both.
   */
  async rekey(
    config: ConsensusConfig,
    work: (signal: AbortSignal) => Promise<void>,
    signal: AbortSignal,
  ): Promise<void> {
    await rekey(this.#ports, config, work, signal);
  }

  /**
   * Removes members whose node was removed from the records, until the signal fires.
   * @throws ConsensusError `consensus-outdated` once another control plane serves a newer epoch
   */
  async repair(config: RepairConfig, signal: AbortSignal): Promise<void> {
    const { clock, log } = this.#ports;
    const layout = consensusLayout(config.stateDir, config.etcd.name);
    using admin = await connectAsRoot(this.#ports, layout, [ownEndpointOf(config)]);
    using recordsEtcd = await connectAsRoot(this.#ports, consensusLayout(config.stateDir, STATE_ETCD.name), [
      `127.0.0.1:${config.recordsPort}`,
    ]);
    using running = childSignal(signal);
    // A member of an older epoch has nothing to repair. Whichever of the two tasks ends first aborts the
    // other one.
    await Promise.race([
      repairMembers({ admin, recordsEtcd, clock, log }, config.nodeId, running.signal),
      this.#untilOutdated(config, layout, running.signal),
    ]).finally(() => running.abort(new Error('the other one has ended')));
  }

  /**
   * @throws ConsensusError `consensus-last-member` or `consensus-quorum` if `leave` would refuse; never
   * throws without data
   */
  async checkLeave(config: ConsensusConfig, signal: AbortSignal): Promise<void> {
    await checkLeave(this.#ports, config, signal);
  }

  /**
   * Leaves etcd, and then deletes data and keys. Refuses if the other members have no quorum without this
   * member. May be repeated after any crash.
   * @returns false if this node had no files of etcd
   */
  async leave(config: ConsensusConfig, signal: AbortSignal): Promise<boolean> {
    return leaveEtcd(this.#ports, config, signal);
  }

  /**
   * Waits for the CA keys of etcd. A node that joins as a control plane has them already; a promoted node
   * requests them when it learns its role.
   */
  async #waitForKeys(layout: ConsensusLayout, signal: AbortSignal): Promise<void> {
    const { files, clock, onWait } = this.#ports;
    for (;;) {
      const { hasData, wasMember: wasFormed, missing } = await inspectDisk(files, layout);
      // `ensurePki` refuses data without CAs with a separate error.
      if (missing.length === 0 || hasData || wasFormed) return;
      onWait?.(`the shared keys of the control planes: ${missing.join(', ')}`, undefined);
      await clock.sleep(KEYS_POLL_MS, signal);
    }
  }

  /** Rejects with `consensus-outdated` once another control plane serves a newer epoch. */
  async #untilOutdated(config: RepairConfig, layout: ConsensusLayout, signal: AbortSignal): Promise<never> {
    const { clock, files } = this.#ports;
    using peers = new PeerEpochs(config.etcd.name, (endpoint) =>
      connectAsRoot(this.#ports, layout, [endpoint]),
    );
    for (;;) {
      await clock.sleep(EPOCH_POLL_MS, signal);
      const newest = await peers.newest(config.peers(), signal);
      if (newest.epoch > (await readEpoch(files, layout)))
        throw new ConsensusError('consensus-outdated', `serving as ${config.nodeId}`);
    }
  }
}

/** Creates users and their permissions, and then enables access control. May be repeated. */
async function enableAccessControl(
  { access }: Pick<EtcdClient, 'access'>,
  etcd: Pick<EtcdInstance, 'access'>,
  signal: AbortSignal,
): Promise<void> {
  if (etcd.access === undefined) return;
  for (const user of etcd.access) await access.ensureUser(user, { signal });
  if (!(await access.isEnabled({ signal }))) await access.enable({ signal });
}
