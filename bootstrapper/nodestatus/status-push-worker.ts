import type { MessageInitShape } from '@bufbuild/protobuf';
import type { Clock } from '../../internal/clock/index.ts';
import { TimeoutError } from '../../internal/cleanup/index.ts';
import { findCoded } from '../../internal/errors/index.ts';
import { combine, currentValue, EventValue, when } from '../../internal/event/index.ts';
import { LATER_KEYS, storedPhase } from '../../internal/keyset/index.ts';
import type { StorageProtection } from '../../internal/platform/index.ts';
import type { Runnable, TreeSnapshot } from '../../internal/supervisor/index.ts';
import { type NodeStatusSchema, Runnable_State } from '../../joinservice/curatorproto/gen/curator_pb.js';
import type { EtcdContent, EtcdName } from '../consensus/index.ts';
import type { CuratorConnection, Curators } from '../curatorclient/index.ts';
import type { Membership } from '../membership/index.ts';
import type { ControlPlaneHealthQuery, StaticPodHealth } from '../kubernetes/index.ts';
import type { MachineProblem, NameLookup, PodNetworkHealth, ServiceProblem } from '../hosthealth/index.ts';
import { CuratorAnnouncement } from './curator-announcement.ts';
import { isFailing } from './is-failing.ts';
import { memberWorker, reportWorking, type RoleValues } from '../roleserve/index.ts';

const PUSH_MS = 10_000;
/** Heartbeat interval until the first response of the curator, which sets the real interval. */
const FIRST_INTERVAL_MS = 1_000;
/** Interval of status checks while a control plane starts. */
const SETTLING_MS = 1_000;
/**
 * If a curator answers no heartbeat for this time, this node connects to another one, before the cluster
 * counts this node as not ready.
 */
const RESPONSE_MS = 5_000;

type Status = MessageInitShape<typeof NodeStatusSchema>;

/** Inputs of the status, and the curators that receive it. */
export interface StatusPushOptions {
  readonly reads: Pick<
    RoleValues,
    'clusterMembership' | 'localControlPlane' | 'localRoles' | 'kubernetesStatus' | 'localKeys'
  >;
  readonly curators: Curators;
  readonly clock: Clock;
  readonly facts: StatusFacts;
}

/** Facts about this machine. */
export interface StatusFacts {
  readonly agentVersion: string;
  bootId(): Promise<string>;
  tree(): TreeSnapshot;
  certificates(): Promise<readonly { readonly name: string; readonly notAfterMs: number }[]>;
  /** Whether private keys that control planes share are on this disk. */
  holdsKeys(): Promise<boolean>;
  /** Health of the control-plane components; empty when no component runs and this node needs none. */
  controlPlane(question: ControlPlaneHealthQuery, signal: AbortSignal): Promise<readonly StaticPodHealth[]>;
  /** What is wrong on this machine. @param isControlPlane whether it is to run the services of a control plane */
  machine(isControlPlane: boolean, signal: AbortSignal): Promise<MachineHealth>;
  /** Called when `machine()` has failed. */
  onUnreadableMachine(error: unknown): void;
  /** How each directory with secrets and data is kept. */
  directories(): Promise<ReadonlyMap<string, StorageProtection>>;
  /** When this machine found that its disk is an old copy; undefined while it is the newest one, or while nobody knows. */
  oldDiskMs(): number | undefined;
  /** The Kubernetes etcd as this node sees it; undefined when this node runs no etcd member. */
  kubernetesEtcd(signal: AbortSignal): Promise<EtcdFacts | undefined>;
  /** Whether all members of each etcd have the same content; undefined when this node runs no etcd member. */
  etcdContents(): Readonly<Record<EtcdName, EtcdContent>> | undefined;
}

/** What is wrong on one machine; empty lists while nothing is. */
export interface MachineHealth {
  readonly services: readonly ServiceProblem[];
  readonly problems: readonly MachineProblem[];
  /** Undefined on a node without the network chart. */
  readonly podNetwork: PodNetworkHealth | undefined;
  /** Undefined on a node without the network chart, and before the first lookup has ended. */
  readonly nameLookup: NameLookup | undefined;
}

/** The state of one etcd cluster as one of its members sees it. */
export interface EtcdFacts {
  readonly dbSizeBytes: number;
  readonly quotaBytes: number;
  readonly hasLeader: boolean;
  /** The member refuses writes, because its quota is used up. */
  readonly isFull: boolean;
  /** The member refuses everything, because etcd found that members differ. */
  readonly isCorrupt: boolean;
  readonly members: readonly {
    readonly name: string;
    readonly isLearner: boolean;
    readonly isStarted: boolean;
  }[];
}

/**
 * Sends heartbeats, and the status of this node whenever the status has changed. Changes that other nodes
 * wait for are sent at once. All other facts are read at each heartbeat, so that an idle machine wakes up
 * only once for both.
 */
export function statusPushWorker(options: StatusPushOptions): Runnable {
  return memberWorker(options, (scope, membership) => {
    scope.run('push', (push) => {
      push.waiting('curator to accept the first status');
      const onPushed = reportWorking(push);
      const announcement = new CuratorAnnouncement(options);
      const work = (curator: CuratorConnection, signal: AbortSignal): Promise<void> =>
        serve(options, membership, { curator, announcement, signal, onPushed });
      return options.curators.use(work, { signal: push.signal });
    });
  });
}

/** Sends the whole status to a new curator first, because that curator may not have the last one. */
async function serve(options: StatusPushOptions, membership: Membership, at: Serving): Promise<void> {
  const { signal } = at;
  const { client, endpoint } = at.curator;
  const { clock, reads } = options;
  let pushed = '';
  const isSettled = new EventValue<boolean>();
  const push = async (): Promise<void> => {
    const curatorEndpoint = await at.announcement.endpoint(client, { nodeId: membership.nodeId, signal });
    const seen = await observe(options, membership, signal);
    const status = { ...(await statusOf(options, membership, seen)), curatorEndpoint };
    isSettled.set(seen.parts.every(({ isReady }) => isReady));
    const text = JSON.stringify(status, (_, value: unknown) =>
      typeof value === 'bigint' ? value.toString() : value,
    );
    if (text === pushed) return;
    try {
      await client.updateNodeStatus({ status }, { signal, timeoutMs: PUSH_MS });
      pushed = text;
    } catch (error) {
      // Heartbeats continue, and the next check sends the status again.
      if (findCoded(error)?.code !== 'curator-status-too-often') throw error;
    }
  };
  await push();
  at.onPushed();
  const heartbeats = new EventValue<number>();
  heartbeats.set(0);
  const checks = new EventValue<number>();
  checks.set(0);
  const pushChanges = async (): Promise<never> => {
    const { localControlPlane: plane, kubernetesStatus: kubernetes, localKeys: keys } = reads;
    using changes = combine({ plane, kubernetes, keys, heartbeats, checks }).watch();
    await changes.next(signal);
    for (;;) {
      await changes.next(signal);
      await push();
    }
  };
  const exchangeHeartbeats = async (): Promise<never> => {
    const pulse: Pulse = { count: 0, intervalMs: FIRST_INTERVAL_MS, unansweredSinceMs: undefined };
    const onHeartbeat = (): void => heartbeats.set(pulse.count);
    const sent = sendHeartbeats(pulse, { endpoint, clock, signal, onHeartbeat });
    for await (const { intervalMs } of client.heartbeat(sent, { signal })) {
      pulse.intervalMs = Number(intervalMs);
      pulse.unansweredSinceMs = undefined;
    }
    throw new Error(`curator ${endpoint} ended the heartbeat stream`);
  };
  const checkUntilReady = async (): Promise<never> => {
    for (let count = 1; ; count++) {
      await when(isSettled, (is) => !is, signal);
      await clock.sleep(SETTLING_MS, signal);
      checks.set(count);
    }
  };
  await Promise.race([pushChanges(), exchangeHeartbeats(), checkUntilReady()]);
}

/** What this node can only find out with requests. */
interface Observed {
  readonly parts: readonly StaticPodHealth[];
  readonly etcd: EtcdFacts | undefined;
  /** Undefined if it could not be found out. */
  readonly machine: MachineHealth | undefined;
}

async function observe(
  { reads, facts }: StatusPushOptions,
  { nodeAddress }: Membership,
  signal: AbortSignal,
): Promise<Observed> {
  const roles = currentValue(reads.localRoles);
  const hasRole = roles?.has('KubernetesController') === true;
  const [parts, etcd, machine] = await Promise.all([
    facts.controlPlane({ nodeAddress, hasRole }, signal),
    facts.kubernetesEtcd(signal),
    machineHealth(facts, roles?.has('ConsensusMember') === true, signal),
  ]);
  return { parts, etcd, machine };
}

/** Without it the node is still reported: a node that sends no status counts as silent. */
async function machineHealth(
  facts: StatusFacts,
  isControlPlane: boolean,
  signal: AbortSignal,
): Promise<MachineHealth | undefined> {
  try {
    return await facts.machine(isControlPlane, signal);
  } catch (error) {
    signal.throwIfAborted();
    facts.onUnreadableMachine(error);
    return undefined;
  }
}

interface Serving {
  readonly curator: CuratorConnection;
  readonly announcement: CuratorAnnouncement;
  readonly onPushed: () => void;
  readonly signal: AbortSignal;
}

interface Pulse {
  count: number;
  intervalMs: number;
  /** Time when the oldest unanswered heartbeat was sent. */
  unansweredSinceMs: number | undefined;
}

/**
 * Sends the first heartbeat at once, then one in each interval that the curator asks for. Throws when a
 * heartbeat was not answered in time.
 */
async function* sendHeartbeats(
  pulse: Pulse,
  at: {
    readonly endpoint: string;
    readonly clock: Clock;
    readonly signal: AbortSignal;
    readonly onHeartbeat: () => void;
  },
): AsyncGenerator<{ readonly sentMs: bigint }> {
  const { endpoint, clock, signal } = at;
  for (;;) {
    pulse.unansweredSinceMs ??= clock.monotonicMs();
    yield { sentMs: BigInt(Math.round(clock.nowMs())) };
    await clock.sleep(pulse.intervalMs, signal);
    if (clock.monotonicMs() - (pulse.unansweredSinceMs ?? Infinity) >= RESPONSE_MS)
      throw new TimeoutError(`no response to heartbeats from ${endpoint} within ${RESPONSE_MS / 1000}s`);
    pulse.count++;
    at.onHeartbeat();
  }
}

function partToWire({ name, isReady, sinceMs, why }: StaticPodHealth) {
  return { name, ready: isReady, sinceMs: BigInt(Math.round(sinceMs)), why };
}

function etcdToWire(etcd: EtcdFacts) {
  const { dbSizeBytes, quotaBytes, hasLeader, isFull, isCorrupt, members } = etcd;
  return {
    ...{ dbSizeBytes: BigInt(dbSizeBytes), quotaBytes: BigInt(quotaBytes), hasLeader, isFull, isCorrupt },
    members: members.map(({ name, isLearner, isStarted }) => ({ name, isLearner, started: isStarted })),
  };
}

function contentToWire({ sinceMs, compared }: EtcdContent) {
  const { atMs = 0, agreeing = [], differing = [], notCompared = [] } = compared ?? {};
  const times = { sinceMs: BigInt(Math.round(sinceMs)), comparedMs: BigInt(Math.round(atMs)) };
  return {
    ...times,
    agreeing: [...agreeing],
    differing: [...differing],
    notCompared: [...notCompared],
  };
}

function machineToWire({ services, problems, podNetwork, nameLookup }: MachineHealth) {
  return {
    services: services.map(({ name, why }) => ({ name, why })),
    problems: problems.map(({ code, subject, cause, isWarning }) => ({ code, subject, cause, isWarning })),
    ...(podNetwork && {
      podNetwork: {
        ...{ address: podNetwork.address, unreachable: [...podNetwork.unreachable] },
        fullPackets: { ...podNetwork.fullPackets, lost: [...podNetwork.fullPackets.lost] },
        roundTrips: {
          peers: podNetwork.roundTrips.map(({ address, ms }) => ({ address, milliseconds: ms })),
        },
      },
    }),
    ...(nameLookup && { nameLookup: { failure: nameLookup.failure ?? '' } }),
  };
}

function lastErrorOf(message: string | undefined, timeMs = 0) {
  return message === undefined
    ? {}
    : { lastError: { code: '', message, timeMs: BigInt(Math.round(timeMs)) } };
}

const STATES = {
  new: Runnable_State.NEW,
  healthy: Runnable_State.HEALTHY,
  done: Runnable_State.DONE,
  dead: Runnable_State.DEAD,
  canceled: Runnable_State.CANCELED,
} as const;

async function statusOf(
  { reads, facts }: StatusPushOptions,
  membership: Membership,
  { parts, etcd, machine }: Observed,
): Promise<Status> {
  const keys = currentValue(reads.localKeys);
  const contents = facts.etcdContents();
  const tree = facts.tree();
  const failed = tree.find(isFailing);
  return {
    address: membership.nodeAddress,
    agentVersion: facts.agentVersion,
    kubernetesVersion: currentValue(reads.kubernetesStatus)?.version ?? '',
    bootId: await facts.bootId(),
    holdsKeys: await facts.holdsKeys(),
    controlPlane: parts.map(partToWire),
    oldDiskMs: BigInt(facts.oldDiskMs() ?? 0),
    ...(machine && { machine: machineToWire(machine) }),
    dataDirectories: [...(await facts.directories())].map(([path, protection]) => ({ path, protection })),
    ...(keys === undefined
      ? {}
      : {
          keys: {
            generation: BigInt(keys.generation),
            phase: storedPhase.encode(keys.phase),
            knowsEncryption: true,
            laterKeys: [...LATER_KEYS],
          },
        }),
    ...(etcd === undefined ? {} : { kubernetesEtcd: etcdToWire(etcd) }),
    ...(contents && {
      etcdContents: {
        state: contentToWire(contents.state),
        kubernetes: contentToWire(contents.kubernetes),
      },
    }),
    runnables: tree.map((each) => ({
      path: each.path,
      state: STATES[each.state],
      sinceMs: BigInt(Math.round(each.sinceMs)),
      restarts: each.restarts,
      idleBecause: each.note ?? '',
      ...lastErrorOf(each.lastError, each.failedMs),
    })),
    certificates: (await facts.certificates()).map(({ name, notAfterMs }) => ({
      name,
      notAfterMs: BigInt(notAfterMs),
    })),
    ...lastErrorOf(failed && `${failed.path}: ${failed.lastError ?? ''}`, failed?.failedMs),
  };
}
