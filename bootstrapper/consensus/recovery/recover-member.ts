import { isAbort } from '../../../internal/errors/index.ts';
import type { EtcdClient } from '../../../internal/etcd/index.ts';
import type { SystemPorts } from '../../../internal/platform/index.ts';
import { CLUSTER_PREFIX, NODES_PREFIX } from '../../../internal/records/index.ts';
import { membersOnRecord, type MemberOnRecord } from '../../membership/index.ts';
import { raiseEpoch, readEpoch, writeEpoch } from './epoch.ts';
import { ConsensusError } from '../errors.ts';
import { restoreSnapshot } from './restore-snapshot.ts';
import { saveSnapshot, withDataCopy, type RecoverConfig } from './data-copy.ts';
import { connectAsRoot, runEtcd } from '../unit/run-etcd.ts';

const ANSWER_MS = 2_000;
const READY_MS = 60_000;
const POLL_MS = 200;
/**
 * A temporary etcd on a copy of the data adds a few log entries when it becomes the only member: the removal of the
 * other members, its election, its address. This is an upper bound of their number.
 */
const ENTRIES_OF_COPY = 16n;

/** The progress of one etcd member. */
export interface MemberProgress {
  readonly nodeId: string;
  readonly endpoint: string;
  /** Lower bound of the member's commit index; undefined if the member did not answer. */
  readonly raftIndex: bigint | undefined;
  readonly hasLeader: boolean;
}

/** The known status of the members of an etcd cluster that may have lost its quorum. */
export interface Survey {
  readonly own: MemberProgress;
  readonly others: readonly MemberProgress[];
  readonly epoch: number;
  /** The members of the cluster on record; empty if this member did not answer, and in the Kubernetes etcd. */
  readonly members: readonly MemberOnRecord[];
}

/**
 * Requests the status of this member and of every other member. A member that started without a quorum does
 * not answer.
 */
export async function surveyMembers(
  ports: Pick<SystemPorts, 'files' | 'clock'>,
  config: Pick<RecoverConfig, 'layout' | 'nodeId' | 'ports' | 'peers'>,
  signal: AbortSignal,
): Promise<Survey> {
  const { layout, nodeId } = config;
  const ask = async (at: Pick<MemberProgress, 'nodeId' | 'endpoint'>): Promise<MemberProgress> => {
    using client = await connectAsRoot(ports, layout, [at.endpoint]);
    return await indexOf(client, at, signal);
  };
  const endpoint = `127.0.0.1:${config.ports.client}`;
  const [own, ...others] = await Promise.all([
    ask({ nodeId, endpoint }),
    ...config.peers.map((peer) => ask({ nodeId: peer, endpoint: peer })),
  ]);
  using client = await connectAsRoot(ports, layout, [endpoint]);
  const members = own.raftIndex === undefined ? [] : await membersOf(client, signal);
  return { own, others, members, epoch: await readEpoch(ports.files, layout) };
}

/**
 * Like `surveyMembers`. If the etcd of this node does not answer, it reads a copy of its data with a temporary
 * etcd, which it stops afterwards.
 */
export async function surveyWithDataCopy(
  ports: SystemPorts,
  config: RecoverConfig,
  signal: AbortSignal,
): Promise<Survey> {
  const survey = await surveyMembers(ports, config, signal);
  if (survey.own.raftIndex !== undefined || hasLeader(survey)) return survey;
  return withDataCopy(
    ports,
    config,
    async (copy) => {
      const raftIndex = await indexOfCopy(ports, copy, signal);
      return {
        ...survey,
        own: { ...survey.own, raftIndex },
        members: await membersOf(copy, signal),
      };
    },
    signal,
  );
}

/** Whether any member that answers has a leader. If so, the quorum is not lost. */
export function hasLeader({ own, others }: Survey): boolean {
  return [own, ...others].some((member) => member.hasLeader);
}

/** Returns the reasons not to recover from this member, and the data that the recovery may lose. Pure. */
export function judgeRecovery({ own, others }: Survey): {
  readonly refusals: readonly string[];
  readonly losses: readonly string[];
} {
  const index = own.raftIndex;
  const ahead = others.filter((other) => (other.raftIndex ?? 0n) > (index ?? 0n));
  const silent = others.filter(({ raftIndex }) => raftIndex === undefined);
  const led = [own, ...others].filter((member) => member.hasLeader);
  const reporters = led.map(({ nodeId }) => nodeId).join(', ');
  const describe = ({ nodeId, raftIndex }: MemberProgress): string =>
    `${nodeId} is at raft index ${raftIndex}, this member at ${index}: recover from ${nodeId}`;
  const refusals = index === undefined ? [] : ahead.map(describe);
  return {
    refusals:
      led.length === 0 ? refusals : [`etcd has a leader (reported by ${reporters}): its quorum is not lost`],
    losses: [
      index === undefined
        ? 'all changes after the last log entry on the disk of this member (its etcd does not answer now)'
        : `all changes after raft index ${index} of this member`,
      ...silent.map(
        ({ nodeId }) => `all changes that only ${nodeId} has; it did not answer, so their number is unknown`,
      ),
    ],
  };
}

/**
 * Makes this member the only member of a new etcd cluster with its data. The cluster gets a new id. Its
 * revisions jump far ahead and all earlier revisions are compacted, so that every watcher lists the keys
 * again. The other members then have an older epoch. The previous data is kept. May be repeated after any
 * crash.
 * @returns the new epoch
 */
export async function recoverMember(
  ports: SystemPorts,
  config: RecoverConfig,
  signal: AbortSignal,
): Promise<number> {
  const { files, log, clock } = ports;
  const { layout, nodeId } = config;
  const before = await readEpoch(files, layout);
  if ((await files.stat(layout.recoveryMarker)) === undefined) {
    const snapshot = await withDataCopy(
      ports,
      config,
      async (copy) => {
        await indexOfCopy(ports, copy, signal);
        return saveSnapshot(ports, config, signal);
      },
      signal,
    );
    await restoreSnapshot(ports, config, { snapshot, epoch: before + 1, signal });
    await files.createExclusive(layout.recoveryMarker, `${before + 1}\n`);
  }
  if ((await files.stat(layout.restoredData)) !== undefined) {
    if ((await files.stat(layout.data)) !== undefined)
      await files.rename(layout.data, `${layout.recovery}/before-${before + 1}-${Math.round(clock.nowMs())}`);
    await files.rename(layout.restoredData, layout.data);
  }
  if ((await files.stat(layout.data)) === undefined)
    throw new ConsensusError(
      'consensus-data-missing',
      `recovering ${nodeId}: found neither the data of etcd nor data restored from a snapshot`,
    );
  // The restored data contains the members, so etcd ignores the origin.
  await runEtcd(ports, config, { origin: { kind: 'first' } }, signal);
  using admin = await connectAsRoot(ports, layout, [`127.0.0.1:${config.ports.client}`]);
  const epoch = await untilAnswered(ports, signal, async () => {
    const options = { signal, timeoutMs: ANSWER_MS };
    const raised = await raiseEpoch(admin, { name: config.etcd.name, before }, options);
    if (raised !== undefined) return raised;
    throw new ConsensusError('consensus-not-recoverable', 'recovering: etcd has no records of a cluster');
  });
  await writeEpoch(files, layout, epoch);
  await files.remove(layout.recoveryMarker);
  log.warn('recovered the quorum with this member alone', { etcd: config.etcd.name, epoch });
  return epoch;
}

async function indexOfCopy(ports: SystemPorts, copy: EtcdClient, signal: AbortSignal): Promise<bigint> {
  const { raftIndex } = await untilAnswered(ports, signal, () =>
    copy.maintenance.status({ signal, timeoutMs: ANSWER_MS }),
  );
  return raftIndex > ENTRIES_OF_COPY ? raftIndex - ENTRIES_OF_COPY : 0n;
}

/** None for any error: a survey says what is known, and damaged records must not prevent a recovery. */
async function membersOf(client: EtcdClient, signal: AbortSignal): Promise<Survey['members']> {
  try {
    const options = { signal, timeoutMs: ANSWER_MS };
    const { entries } = await client.listLocal(CLUSTER_PREFIX + NODES_PREFIX, options);
    return membersOnRecord(
      entries.map(({ key, value }) => ({ key: key.slice(CLUSTER_PREFIX.length), value })),
    );
  } catch (error) {
    if (isAbort(error, signal)) throw error;
    return [];
  }
}

async function indexOf(
  client: EtcdClient,
  at: Pick<MemberProgress, 'nodeId' | 'endpoint'>,
  signal: AbortSignal,
): Promise<MemberProgress> {
  try {
    const { raftIndex, leaderId } = await client.maintenance.status({ signal, timeoutMs: ANSWER_MS });
    return { ...at, raftIndex, hasLeader: leaderId !== 0n };
  } catch (error) {
    if (isAbort(error, signal)) throw error;
    return { ...at, raftIndex: undefined, hasLeader: false }; // for any error: the member did not respond
  }
}

async function untilAnswered<T>(
  { clock }: SystemPorts,
  signal: AbortSignal,
  ask: () => Promise<T>,
): Promise<T> {
  const endMs = clock.monotonicMs() + READY_MS;
  for (;;) {
    try {
      return await ask();
    } catch (error) {
      if (isAbort(error, signal) || error instanceof ConsensusError) throw error;
      if (clock.monotonicMs() > endMs)
        throw new ConsensusError('consensus-not-ready', 'waiting for etcd to answer', { cause: error });
      await clock.sleep(POLL_MS, signal);
    }
  }
}
