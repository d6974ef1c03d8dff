import { childSignal } from '../../internal/cleanup/index.ts';
import { ensureAccessControl } from './access.ts';
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
import { STATE_ETCD } from './etcd-instances.ts';
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
/** How often others are asked whether the cluster was recovered without this member. */
const EPOCH_MS = 10_000;

/**
 * One etcd on this node: its PKI, unit and access control. `start` may be repeated at any time, after any crash: it makes
 * what is missing and leaves what is right. A running etcd is not restarted unless its configuration changed.
 */
export class Consensus {
  readonly #ports: ConsensusPorts;
  readonly #pki: PkiPorts;

  constructor(ports: ConsensusPorts) {
    this.#ports = ports;
    this.#pki = { files: ports.files, nowMs: () => ports.clock.nowMs() };
  }

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
      // Members that missed a recovery would take this one into what is not the cluster any more.
      const now = newest.epoch === 0 ? config : { ...config, peers: newest.endpoints };
      const entering = { config: now, layout, admin, signal };
      if (!config.createsCluster && !(await hasUsableData(ports, { ...entering, newest })))
        await joinEtcd(ports, entering);
      else {
        const origin = await originOf(ports.files, layout);
        await runEtcd(ports, { ...config, layout, settings: { ...config, origin }, keepRunning }, signal);
        await resumeMember(ports, entering);
      }
      await ports.files.createExclusive(layout.memberMarker, `${config.clusterId}\n`);
      await ensureAccessControl(admin, config.etcd, signal);
      await updatePeerUrl(ports, entering);
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
   * Makes those of etcd's certificates anew that have little time left. etcd and the API server read theirs for each
   * connection and go on; this process and the curator have to be given the new ones, so the answer has a new client.
   */
  async renew(config: ConsensusConfig): Promise<RunningConsensus> {
    const layout = consensusLayout(config.stateDir, config.etcd.name);
    await ensurePki(this.#pki, config, layout);
    return runningFrom(await connectAsRoot(this.#ports, layout, [ownEndpointOf(config)]), config, layout);
  }

  /** Brings authorities that were replaced on disk into force, and then does `work`, in this node's turn. */
  async rekey(
    config: ConsensusConfig,
    work: (signal: AbortSignal) => Promise<void>,
    signal: AbortSignal,
  ): Promise<void> {
    await rekey(this.#ports, config, work, signal);
  }

  /** Takes members of lost nodes out, once they are struck off the records; until the signal fires. With a client of its own. */
  async repair(config: RepairConfig, signal: AbortSignal): Promise<void> {
    const { clock, log } = this.#ports;
    const layout = consensusLayout(config.stateDir, config.etcd.name);
    using admin = await connectAsRoot(this.#ports, layout, [ownEndpointOf(config)]);
    using recorded = await connectAsRoot(this.#ports, consensusLayout(config.stateDir, STATE_ETCD.name), [
      `127.0.0.1:${config.recordsPort}`,
    ]);
    using life = childSignal(signal);
    // Both end with the first of them: one has nothing to do for a member of an older epoch.
    await Promise.race([
      repairMembers({ admin, recordsEtcd: recorded, clock, log }, config.nodeId, life.signal),
      this.#untilOutdated(config, layout, life.signal),
    ]).finally(() => life.abort(new Error('one of them has ended')));
  }

  /** Throws `consensus-last-member` or `consensus-quorum` where `leave` would. Says nothing of a node without data. */
  async checkLeave(config: ConsensusConfig, signal: AbortSignal): Promise<void> {
    await checkLeave(this.#ports, config, signal);
  }

  /**
   * Leaves: out of the members, and only then are data and keys wiped. Refused while the others could not decide without
   * this one. Fine where there is nothing, and after a crash anywhere. Answers whether there was anything.
   */
  async leave(config: ConsensusConfig, signal: AbortSignal): Promise<boolean> {
    return leaveEtcd(this.#ports, config, signal);
  }

  /** A node that joins has etcd's CAs before it is a member; one that is promoted asks for them when it learns of its role. */
  async #waitForKeys(layout: ConsensusLayout, signal: AbortSignal): Promise<void> {
    const { files, clock, onWait } = this.#ports;
    for (;;) {
      const { hasData, wasMember: wasFormed, missing } = await inspectDisk(files, layout);
      // Data without its CAs is another matter, and refused by name.
      if (missing.length === 0 || hasData || wasFormed) return;
      onWait?.(`the keys that control planes share: ${missing.join(', ')}`, undefined);
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
      await clock.sleep(EPOCH_MS, signal);
      const newest = await peers.newest(config.peers(), signal);
      if (newest.epoch > (await readEpoch(files, layout)))
        throw new ConsensusError('consensus-outdated', `serving as ${config.nodeId}`);
    }
  }
}
