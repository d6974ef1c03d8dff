import { isAbort } from '../../../internal/errors/index.ts';
import type { EtcdClient } from '../../../internal/etcd/index.ts';
import { raiseEpoch, readEpoch, writeEpoch } from './epoch.ts';
import { ConsensusError } from '../errors.ts';
import { urlOf } from '../unit/etcd-unit.ts';
import { saveSnapshot, withDataCopy } from './data-copy.ts';
import type { EtcdName } from '../etcd-instances.ts';
import type { RecoverConfig, RecoverPorts } from './recover-config.ts';
import { connectAsRoot, runEtcd } from '../unit/run-etcd.ts';

/** As etcd's own documentation has it: far beyond what could have been written meanwhile. */
const REVISION_BUMP = 1_000_000_000;
const RESTORE_MS = 10 * 60_000;
const ANSWER_MS = 2_000;
const READY_MS = 60_000;
const POLL_MS = 200;
/** A copy that is made to serve alone writes a few entries of its own: members taken out, a leader, its address. */
const ENTRIES_OF_COPY = 16n;

/** How far one member of etcd is, as far as it could be asked. */
export interface MemberProgress {
  readonly nodeId: string;
  readonly endpoint: string;
  /** Up to which entry of its log, at least, it knows what was decided; undefined when nobody could find out. */
  readonly raftIndex: bigint | undefined;
  readonly hasLeader: boolean;
}

/** What can be known of etcd without a quorum. */
export interface Survey {
  readonly own: MemberProgress;
  readonly others: readonly MemberProgress[];
  readonly epoch: number;
}

/** Asks this member and every other one; an etcd that has started without a quorum answers nobody. */
export async function surveyMembers(
  ports: Pick<RecoverPorts, 'files' | 'clock'>,
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
  return { own, others, epoch: await readEpoch(ports.files, layout) };
}

/** Beside that, looks into a copy of the data of this member where it serves nobody; its etcd does not run afterwards. */
export async function surveyWithDataCopy(
  ports: RecoverPorts,
  config: RecoverConfig,
  signal: AbortSignal,
): Promise<Survey> {
  const survey = await surveyMembers(ports, config, signal);
  if (survey.own.raftIndex !== undefined || hasLeader(survey)) return survey;
  const raftIndex = await withDataCopy(ports, config, (copy) => indexOfCopy(ports, copy, signal), signal);
  return { ...survey, own: { ...survey.own, raftIndex } };
}

/** Whether any member that answers knows a leader: then the quorum is not lost. */
export function hasLeader({ own, others }: Survey): boolean {
  return [own, ...others].some((member) => member.hasLeader);
}

/** Why not to recover from this member, and what would be lost by it. Pure. */
export function judgeRecovery({ own, others }: Survey): {
  readonly refusals: readonly string[];
  readonly losses: readonly string[];
} {
  const index = own.raftIndex;
  const ahead = others.filter((other) => (other.raftIndex ?? 0n) > (index ?? 0n));
  const silent = others.filter(({ raftIndex }) => raftIndex === undefined);
  const led = [own, ...others].filter((member) => member.hasLeader);
  return {
    refusals: [
      ...(led.length > 0
        ? [`etcd has a leader (by ${led.map(({ nodeId }) => nodeId).join(', ')}): its quorum is not lost`]
        : []),
      ...(led.length > 0 || index === undefined
        ? []
        : ahead.map(
            (each) =>
              `${each.nodeId} is at raft index ${each.raftIndex}, this one at ${index}: recover there`,
          )),
    ],
    losses: [
      index === undefined
        ? 'whatever was decided after the last entry on the disk of this member, which serves nobody now'
        : `whatever was decided after raft index ${index} of this member`,
      ...silent.map(
        ({ nodeId }) => `what only ${nodeId} has: it did not answer, so nobody knows how much that is`,
      ),
    ],
  };
}

/** `recoverMember`, unless it would lose more than it must. */
export async function recoverAlone(
  ports: RecoverPorts,
  config: RecoverConfig,
  signal: AbortSignal,
): Promise<number> {
  if ((await ports.files.stat(config.layout.recoveryMarker)) === undefined)
    await refuseLoss(ports, config, signal);
  return recoverMember(ports, config, signal);
}

/**
 * Makes this member the only one of a new etcd with the data of the old: new identity, revisions far ahead and all before
 * them compacted, so that whoever watched reads anew. The members that did not come along are of an older epoch. What
 * was there is kept aside. May be repeated after a crash anywhere.
 * @returns the new epoch
 */
export async function recoverMember(
  ports: RecoverPorts,
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
    await restore(ports, config, { snapshot, epoch: before + 1, signal });
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
      `recovering ${nodeId}: neither its data nor what was restored of it is here`,
    );
  // Who it is stands in its data now; its origin does not matter any more.
  const settings = { ...config, origin: { kind: 'first' } } as const;
  await runEtcd(ports, { ...config, settings }, signal);
  using admin = await connectAsRoot(ports, layout, [`127.0.0.1:${config.ports.client}`]);
  const epoch = await raiseWhenServing(ports, { admin, before, name: config.etcd.name }, signal);
  await writeEpoch(files, layout, epoch);
  await files.remove(layout.recoveryMarker);
  log.warn('etcd continues with this member alone, in a new epoch', { etcd: config.etcd.name, epoch });
  return epoch;
}

/** Asked once more, at the last moment: the others may have come back. */
async function refuseLoss(ports: RecoverPorts, config: RecoverConfig, signal: AbortSignal): Promise<void> {
  const { refusals } = judgeRecovery(await surveyWithDataCopy(ports, config, signal));
  if (refusals.length > 0)
    throw new ConsensusError(
      'consensus-not-recoverable',
      `recovering from ${config.nodeId}: ${refusals.join('; ')}`,
    );
}

async function restore(
  { files, commands, units }: RecoverPorts,
  { etcd, layout, nodeId, address, ports, clusterId, etcdutlBinary }: RecoverConfig,
  from: { readonly snapshot: string; readonly epoch: number; readonly signal: AbortSignal },
): Promise<void> {
  const peerUrl = urlOf(address, ports.peer);
  await units.stop(etcd.unit, from.signal);
  await files.remove(layout.restoredData);
  await commands.run({
    argv: [
      etcdutlBinary,
      ...['snapshot', 'restore', from.snapshot],
      ...['--data-dir', layout.restoredData, '--name', nodeId],
      ...['--initial-cluster', `${nodeId}=${peerUrl}`, '--initial-advertise-peer-urls', peerUrl],
      ...['--initial-cluster-token', `${clusterId}-${from.epoch}`],
      ...['--bump-revision', String(REVISION_BUMP), '--mark-compacted'],
    ],
    timeoutMs: RESTORE_MS,
    signal: from.signal,
  });
}

async function raiseWhenServing(
  ports: RecoverPorts,
  { admin, ...of }: { readonly admin: EtcdClient; readonly before: number; readonly name: EtcdName },
  signal: AbortSignal,
): Promise<number> {
  return untilAnswered(ports, signal, async () => {
    const epoch = await raiseEpoch(admin, of, { signal, timeoutMs: ANSWER_MS });
    if (epoch === undefined)
      throw new ConsensusError('consensus-not-recoverable', 'recovering: etcd holds no cluster');
    return epoch;
  });
}

async function indexOfCopy(ports: RecoverPorts, copy: EtcdClient, signal: AbortSignal): Promise<bigint> {
  const { raftIndex } = await untilAnswered(ports, signal, () =>
    copy.maintenance.status({ signal, timeoutMs: ANSWER_MS }),
  );
  return raftIndex > ENTRIES_OF_COPY ? raftIndex - ENTRIES_OF_COPY : 0n;
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
    return { ...at, raftIndex: undefined, hasLeader: false }; // whatever the reason: it could not be asked
  }
}

async function untilAnswered<T>(
  { clock }: RecoverPorts,
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
        throw new ConsensusError('consensus-not-ready', 'waiting for the etcd of this machine to answer', {
          cause: error,
        });
      await clock.sleep(POLL_MS, signal);
    }
  }
}
