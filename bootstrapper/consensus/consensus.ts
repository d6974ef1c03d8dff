import { childSignal } from '../../internal/cleanup/index.ts';
import type { Clock } from '../../internal/clock/index.ts';
import { EtcdError, Namespace, type EtcdClient, type Member } from '../../internal/etcd/index.ts';
import { isAbort } from '../../internal/errors/index.ts';
import type { CommandRunner } from '../../internal/exec/index.ts';
import type { FilePort } from '../../internal/file/index.ts';
import type { Logger } from '../../internal/logging/index.ts';
import { CLUSTER_PREFIX } from '../../internal/records/index.ts';
import { ensureAccessControl } from './access.ts';
import { askEpoch, newestEpoch, readEpoch, writeEpoch, type Newest } from './epoch.ts';
import { ConsensusError } from './errors.ts';
import type { PkiPorts } from './etcd-pki.ts';
import { inspectDisk } from './disk-state.ts';
import { preparePki } from './prepare-pki.ts';
import { repairMembers } from './repair.ts';
import { ETCD_UNIT, urlOf, type EtcdSettings } from './etcd-unit.ts';
import { consensusLayout, type ConsensusLayout, type EtcdClientFiles } from './layout.ts';
import {
  addLearner,
  findSelf,
  guardQuorum,
  promoteSelf,
  removeSelf,
  type MembershipPorts,
  type Self,
} from './membership.ts';
import { connectAsRoot, originOf, runEtcd, type ConsensusUnits } from './run-etcd.ts';
import { holdSlot, type SlotOptions, type SlotPorts } from './slot.ts';

const POLL_MS = 200;
const KEYS_POLL_MS = 500;
const PROBE_MS = 2_000;
/** With peers that are still down this may pass; the caller asks again. */
const READY_MS = 60_000;
/** How often others are asked whether the cluster was recovered without this member. */
const EPOCH_MS = 10_000;

export interface ConsensusConfig extends Omit<EtcdSettings, 'origin'> {
  /** Whether this node creates the cluster: the first member, which makes the authorities too. */
  readonly creates: boolean;
  /** Client endpoints of the other members, "host:port"; none where this is the only one. */
  readonly peers: readonly string[];
  readonly etcdBinary: string;
  /** "/var/lib/cluster" */
  readonly stateDir: string;
  /** Of etcd's certificates; a year unless said, a fraction is fine. */
  readonly validDays?: number | undefined;
  /** How long etcd may take until it serves; a minute unless said. */
  readonly readyMs?: number;
}

export interface ConsensusPorts {
  readonly files: FilePort;
  readonly commands: CommandRunner;
  readonly units: ConsensusUnits;
  readonly clock: Clock;
  readonly log: Logger;
  /** Told while something is waited for: what, and the last error. */
  readonly onWait?: (what: string, lastError: unknown) => void;
}

/** A member that serves, with its access control in force. */
export interface RunningConsensus extends Disposable {
  /** The local member as etcd's root; disposed with this. */
  readonly admin: EtcdClient;
  /** "127.0.0.1:2379" */
  readonly endpoint: string;
  readonly metricsUrl: string;
  readonly apiServer: EtcdClientFiles;
  readonly curator: EtcdClientFiles;
}

/**
 * etcd on this node: its PKI, unit and access control. `start` may be repeated at any time, after any crash: it makes
 * what is missing and leaves what is right. A running etcd is not restarted unless its configuration changed.
 */
export class Consensus {
  readonly #ports: ConsensusPorts;
  readonly #pki: PkiPorts;

  constructor(ports: ConsensusPorts) {
    this.#ports = ports;
    this.#pki = { files: ports.files, nowMs: () => ports.clock.nowMs() };
  }

  async start(config: ConsensusConfig, signal: AbortSignal): Promise<RunningConsensus> {
    const layout = consensusLayout(config.stateDir);
    if (!config.creates) await this.#waitForKeys(layout, signal);
    await preparePki(this.#pki, config, layout);
    const admin = await connectAsRoot(this.#ports, layout, [endpointOf(config)]);
    try {
      const newest = await this.#newestOf(config.creates ? [] : config.peers, layout, signal);
      // Members that missed a recovery would take this one into what is not the cluster any more.
      const now = newest.epoch === 0 ? config : { ...config, peers: newest.endpoints };
      const joins = !config.creates && !(await this.#hasUsableData({ config: now, newest, layout, signal }));
      if (joins) await this.#join({ config: now, layout, admin, signal });
      else {
        const origin = await originOf(this.#ports.files, layout);
        await runEtcd(this.#ports, { ...config, layout, settings: { ...config, origin } }, signal);
        await this.#serve({ config: now, layout, admin, signal });
      }
      await this.#ports.files.createExclusive(layout.formedMark, `${config.clusterId}\n`);
      await ensureAccessControl(admin, signal);
      await this.#correctPeerUrl(admin, config, signal);
      const epoch = await askEpoch(admin, signal);
      if (epoch !== undefined) await writeEpoch(this.#ports.files, layout, epoch);
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
    const layout = consensusLayout(config.stateDir);
    await preparePki(this.#pki, config, layout);
    return runningFrom(await connectAsRoot(this.#ports, layout, [endpointOf(config)]), config, layout);
  }

  /** A node that joins has etcd's CAs before it is a member; one that is promoted asks for them when it learns of its role. */
  async #waitForKeys(layout: ConsensusLayout, signal: AbortSignal): Promise<void> {
    const { files, clock, onWait } = this.#ports;
    for (;;) {
      const { hasData, wasFormed, missing } = await inspectDisk(files, layout);
      // Data without its CAs is another matter, and refused by name.
      if (missing.length === 0 || hasData || wasFormed) return;
      onWait?.(`the keys that control planes share: ${missing.join(', ')}`, undefined);
      await clock.sleep(KEYS_POLL_MS, signal);
    }
  }

  /** Takes members of lost nodes out, once they are struck off the records; until the signal fires. With a client of its own. */
  async repair(config: RepairConfig, signal: AbortSignal): Promise<void> {
    const { clock, log } = this.#ports;
    const layout = consensusLayout(config.stateDir);
    using admin = await connectAsRoot(this.#ports, layout, [endpointOf(config)]);
    using life = childSignal(signal);
    // Both end with the first of them: one has nothing to do for a member of an older epoch.
    await Promise.race([
      repairMembers({ admin, clock, log }, config.nodeId, life.signal),
      this.#untilOutdated(config, layout, life.signal),
    ]).finally(() => life.abort(new Error('one of them has ended')));
  }

  /** Rejects with `consensus-outdated` once another control plane serves a newer epoch. */
  async #untilOutdated(config: RepairConfig, layout: ConsensusLayout, signal: AbortSignal): Promise<never> {
    for (;;) {
      await this.#ports.clock.sleep(EPOCH_MS, signal);
      if (await this.#isOutdated(config.peers(), layout, signal))
        throw new ConsensusError('consensus-outdated', `serving as ${config.nodeId}`);
    }
  }

  async #isOutdated(
    peers: readonly string[],
    layout: ConsensusLayout,
    signal: AbortSignal,
  ): Promise<boolean> {
    const newest = await this.#newestOf(peers, layout, signal);
    return newest.epoch > (await readEpoch(this.#ports.files, layout));
  }

  #newestOf(peers: readonly string[], layout: ConsensusLayout, signal: AbortSignal): Promise<Newest> {
    return newestEpoch((endpoint) => connectAsRoot(this.#ports, layout, [endpoint]), peers, signal);
  }

  /** Throws `consensus-last-member` or `consensus-quorum` where `leave` would. Says nothing of a node without data. */
  async checkLeave(config: ConsensusConfig, signal: AbortSignal): Promise<void> {
    const layout = consensusLayout(config.stateDir);
    if (!(await this.#isCountedOn(layout))) return;
    if (config.peers.length === 0) return guardQuorum({ others: [], answering: 0 });
    await this.#withPeers(config, layout, async ({ members }) => {
      const listed = await members.list({ signal, timeoutMs: PROBE_MS });
      const own = listed.find(({ name }) => name === config.nodeId);
      if (own === undefined || own.isLearner) return;
      const others = listed.filter(({ id, isLearner }) => !isLearner && id !== own.id);
      guardQuorum({ others, answering: await this.#countAnswering(layout, others, signal) });
    });
  }

  /** The root user's key goes after the data: without either, an earlier life has left already. */
  async #isCountedOn(layout: ConsensusLayout): Promise<boolean> {
    const { files } = this.#ports;
    const stats = [await files.stat(layout.user('root').certFile), await files.stat(layout.memberData)];
    return stats.every((stat) => stat !== undefined);
  }

  /**
   * Leaves: out of the members, and only then are data and keys wiped. Refused while the others could not decide without
   * this one. Fine where there is nothing, and after a crash anywhere. Answers whether there was anything.
   */
  async leave(config: ConsensusConfig, signal: AbortSignal): Promise<boolean> {
    const { files, units } = this.#ports;
    const layout = consensusLayout(config.stateDir);
    const isHere = (await files.stat(layout.root)) ?? (await files.stat(layout.etcdHome));
    if (isHere === undefined) return false;
    if (await this.#isCountedOn(layout)) {
      await this.#withPeers(config, layout, async (admin) => {
        const ports = this.#membershipPorts(admin);
        await holdSlot(this.#slotPorts(admin), this.#slotOptions(config, signal), (slot) =>
          removeSelf(ports, slot, selfOf(config), (others) => this.#countAnswering(layout, others, signal)),
        );
      });
    }
    await units.stop(ETCD_UNIT, signal);
    await this.#wipe(layout);
    this.#ports.log.info('this node is no member of etcd any more', {});
    return true;
  }

  /** Data first, keys after it: while there is data, it can be asked whether the cluster still counts on it. */
  async #wipe(layout: ConsensusLayout): Promise<void> {
    const { files } = this.#ports;
    for (const path of [layout.memberData, layout.data, layout.formedMark, layout.etcdHome, layout.root])
      await files.remove(path);
  }

  /** Into the cluster: in the slot a learner, started, caught up, a voter. */
  async #join({ config, layout, admin, signal }: Serving): Promise<void> {
    await this.#withServingPeers({ config, layout, signal }, (peers) =>
      holdSlot(this.#slotPorts(peers), this.#slotOptions(config, signal), async (slot) => {
        const ports = this.#membershipPorts(peers);
        const { members } = await addLearner(ports, slot, selfOf(config));
        const settings = { ...config, origin: { kind: 'added', members } } as const;
        await runEtcd(this.#ports, { ...config, layout, settings }, slot.signal);
        await promoteSelf(ports, slot, selfOf(config));
        await this.#waitUntilServing(admin, config, slot.signal);
      }),
    );
  }

  /** A member that was on its way in when an earlier life ended is still a learner, which serves nothing by itself. */
  async #serve({ config, layout, admin, signal }: Serving): Promise<void> {
    if (config.creates || (await this.#ports.files.stat(layout.formedMark)) !== undefined)
      return this.#waitUntilServing(admin, config, signal);
    await this.#withServingPeers({ config, layout, signal }, (peers) =>
      holdSlot(this.#slotPorts(peers), this.#slotOptions(config, signal), (slot) =>
        promoteSelf(this.#membershipPorts(peers), slot, selfOf(config)),
      ),
    );
    await this.#waitUntilServing(admin, config, signal);
  }

  /**
   * Whether there is data that this cluster still counts on. Who was removed, by a demotion that did not end or by an
   * operator, and has the role again, begins anew; where nobody can be asked, the data is used. Those of an older epoch
   * are not asked: they may have removed whoever went on without them.
   */
  async #hasUsableData({ config, newest, layout, signal }: Found): Promise<boolean> {
    const { files, log } = this.#ports;
    if ((await files.stat(layout.memberData)) === undefined) return false;
    const own = await readEpoch(files, layout);
    if (newest.epoch > own) {
      log.warn('the cluster was recovered without this node: its old data goes, and it joins anew', {});
      await this.#giveUpData(layout, signal);
      return false;
    }
    if (config.peers.length === 0 || (newest.epoch > 0 && newest.epoch < own)) return true;
    let isMember: boolean;
    try {
      isMember = await this.#withPeers(config, layout, async (peers) => {
        const listed = await peers.members.list({ signal, timeoutMs: PROBE_MS });
        return findSelf(listed, selfOf(config)) !== undefined;
      });
    } catch (error) {
      if (isAbort(error, signal)) throw error;
      log.info('nobody could be asked whether this node is still a member', { error });
      return true;
    }
    if (isMember) return true;
    log.warn('this node was removed from etcd: its old data goes, and it joins anew', {});
    await this.#giveUpData(layout, signal);
    return false;
  }

  async #giveUpData(layout: ConsensusLayout, signal: AbortSignal): Promise<void> {
    const { files, units } = this.#ports;
    await units.stop(ETCD_UNIT, signal);
    for (const path of [layout.memberData, layout.data, layout.formedMark, layout.epochFile])
      await files.remove(path);
    await files.makeDirectory(layout.data);
  }

  async #withPeers<T>(
    config: ConsensusConfig,
    layout: ConsensusLayout,
    work: (peers: EtcdClient) => Promise<T>,
  ): Promise<T> {
    const [first, ...more] = config.peers;
    if (first === undefined)
      throw new ConsensusError('consensus-no-peers', `changing the members of etcd as ${config.nodeId}`);
    using peers = await connectAsRoot(this.#ports, layout, [first, ...more]);
    const done = await work(peers);
    return done;
  }

  /** A read goes on to the next member where a write fails: of two that join at once, each knows the other, which does not serve yet. */
  async #withServingPeers<T>(
    { config, layout, signal }: Omit<Serving, 'admin'>,
    work: (peers: EtcdClient) => Promise<T>,
  ): Promise<T> {
    return this.#withPeers(config, layout, async (peers) => {
      await peers.get('ready', { signal, timeoutMs: PROBE_MS });
      return work(peers);
    });
  }

  #membershipPorts(peers: EtcdClient): MembershipPorts {
    const { clock, log, onWait } = this.#ports;
    return { members: peers.members, clock, log, say: (what, lastError) => onWait?.(what, lastError) };
  }

  #slotPorts(peers: EtcdClient): SlotPorts {
    const { clock, log } = this.#ports;
    return { etcd: new Namespace(peers, CLUSTER_PREFIX), clock, log };
  }

  #slotOptions({ nodeId }: ConsensusConfig, signal: AbortSignal): SlotOptions {
    const onPlace = (place: number, estimateMs: number): void =>
      this.#ports.onWait?.(
        `the turn of this node to change etcd: place ${place}, about ${Math.ceil(estimateMs / 1000)} s`,
        undefined,
      );
    return { nodeId, onPlace, signal };
  }

  /** How many of these members answer by themselves. */
  async #countAnswering(
    layout: ConsensusLayout,
    members: readonly Member[],
    signal: AbortSignal,
  ): Promise<number> {
    const answers = await Promise.all(
      members.map(async ({ clientUrls: [url] }) => {
        if (url === undefined) return false;
        using client = await connectAsRoot(this.#ports, layout, [url.replace('https://', '')]);
        try {
          await client.maintenance.status({ signal, timeoutMs: PROBE_MS });
          return true;
        } catch {
          return false; // whatever the reason: it can't be counted on
        }
      }),
    );
    signal.throwIfAborted();
    return answers.filter(Boolean).length;
  }

  /** A linearizable read: the member runs, has its peers, and they have a leader. */
  async #waitUntilServing(admin: EtcdClient, config: ConsensusConfig, signal: AbortSignal): Promise<void> {
    const { clock, onWait } = this.#ports;
    const endMs = clock.monotonicMs() + (config.readyMs ?? READY_MS);
    for (;;) {
      try {
        await admin.get('ready', { signal, timeoutMs: PROBE_MS });
        return;
      } catch (error) {
        if (isAbort(error, signal) || !(error instanceof EtcdError && error.retryable)) throw error;
        onWait?.('etcd to serve', error);
        if (clock.monotonicMs() > endMs)
          throw new ConsensusError('consensus-not-ready', 'waiting for etcd to serve', { cause: error });
        await clock.sleep(POLL_MS, signal);
      }
    }
  }

  /** A machine that came back with another address tells its peers; certificates and listeners were made for it above. */
  async #correctPeerUrl(admin: EtcdClient, config: ConsensusConfig, signal: AbortSignal): Promise<void> {
    const wanted = urlOf(config.address, config.ports.peer);
    const own = (await admin.members.list({ signal })).find(({ name }) => name === config.nodeId);
    if (own === undefined || own.peerUrls.includes(wanted)) return;
    this.#ports.log.info('this node has a new address', { was: own.peerUrls, is: wanted });
    await admin.members.setPeerUrl(own.id, wanted, { signal });
  }
}

function runningFrom(admin: EtcdClient, config: ConsensusConfig, layout: ConsensusLayout): RunningConsensus {
  return {
    admin,
    endpoint: endpointOf(config),
    metricsUrl: `http://127.0.0.1:${config.ports.metrics}/metrics`,
    apiServer: clientFiles(config, layout, 'apiserver'),
    curator: clientFiles(config, layout, 'curator'),
    [Symbol.dispose]: () => admin[Symbol.dispose](),
  };
}

/** What keeps etcd's members right for as long as this one serves. */
export interface RepairConfig extends Pick<ConsensusConfig, 'nodeId' | 'ports' | 'stateDir'> {
  /** Client endpoints of the other members as they are known now, "host:port". */
  readonly peers: () => readonly string[];
}

interface Found {
  readonly config: ConsensusConfig;
  readonly newest: Newest;
  readonly layout: ConsensusLayout;
  readonly signal: AbortSignal;
}

interface Serving {
  readonly config: ConsensusConfig;
  readonly layout: ConsensusLayout;
  readonly admin: EtcdClient;
  readonly signal: AbortSignal;
}

function selfOf({ nodeId, address, ports }: ConsensusConfig): Self {
  return { nodeId, peerUrl: urlOf(address, ports.peer) };
}

function endpointOf(config: Pick<ConsensusConfig, 'ports'>): string {
  return `127.0.0.1:${config.ports.client}`;
}

function clientFiles(
  config: ConsensusConfig,
  layout: ConsensusLayout,
  name: 'apiserver' | 'curator',
): EtcdClientFiles {
  const { caFile, certFile, keyFile } = layout.user(name);
  return { endpoint: `https://${endpointOf(config)}`, caFile, certFile, keyFile };
}
