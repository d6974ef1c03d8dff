import { newestOnRecord } from '../../membership/index.ts';
import { ConsensusError } from '../errors.ts';
import { ETCD_NAMES, type EtcdName } from '../etcd-instances.ts';
import { hasLeader, judgeRecovery, type Survey } from './recover-member.ts';

/** The known status of the members of both etcd clusters. */
export type Surveys = Readonly<Record<EtcdName, Survey>>;

/** Whether this machine's data can be used to recover the etcd clusters. */
export interface RecoveryVerdict {
  /** The etcd clusters without a quorum; the others are not changed. */
  readonly lost: readonly EtcdName[];
  /**
   * Reasons why the clusters must not be recovered from this machine; empty if they can be. The recovery may need
   * another machine, or no recovery may be needed.
   */
  readonly refusals: readonly string[];
  /**
   * For each lost etcd cluster whose member on this machine was found to have other content than the majority. A recovery
   * would make this content that of the cluster, so it needs the consent of the operator.
   */
  readonly damage: readonly string[];
  /** Data that the recovery may lose. */
  readonly losses: readonly string[];
}

/**
 * Decides whether to recover both etcd clusters from this machine. If two machines each have the newest data
 * of one cluster, the state etcd decides, because it records which nodes were removed. Pure.
 */
export function judgeRecoveries(surveys: Surveys): RecoveryVerdict {
  const lost = ETCD_NAMES.filter((name) => !hasLeader(surveys[name]));
  if (lost.length === 0)
    return { lost, refusals: judgeRecovery(surveys.state).refusals, damage: [], losses: [] };
  const isStateAhead = lost.includes('state') && isAheadOfAll(surveys.state);
  const refused = lost.filter((name) => name === 'state' || !isStateAhead);
  const given = lost.filter((name) => !refused.includes(name));
  const titled = (name: EtcdName, texts: readonly string[]): readonly string[] =>
    texts.map((text) => `${name} etcd: ${text}`);
  return {
    lost,
    refusals: refused.flatMap((name) => titled(name, judgeRecovery(surveys[name]).refusals)),
    damage: lost.flatMap((name) => titled(name, damageOf(name, surveys.state))),
    losses: [
      ...lost.flatMap((name) => titled(name, judgeRecovery(surveys[name]).losses)),
      ...given.flatMap((name) => titled(name, judgeRecovery(surveys[name]).refusals)),
    ],
  };
}

/**
 * The etcd clusters to recover from this machine. Pure.
 * @param skipChecks the operator keeps the data of this machine although it is damaged
 * @throws ConsensusError `consensus-not-recoverable`
 */
export function decideRecoveries(surveys: Surveys, skipChecks: boolean): readonly EtcdName[] {
  const { lost, refusals, damage } = judgeRecoveries(surveys);
  const reasons = [...refusals, ...(skipChecks ? [] : damage)];
  if (reasons.length === 0) return lost;
  const { nodeId } = surveys.state.own;
  throw new ConsensusError(
    'consensus-not-recoverable',
    `cannot recover from ${nodeId}: ${reasons.join('; ')}`,
  );
}

/** Without a majority nobody knows which content is right: then the operator chooses a machine (docs/recovery.md). */
function damageOf(name: EtcdName, { own, members }: Survey): readonly string[] {
  const newest = newestOnRecord(name, members);
  if (newest === undefined || newest.agreeing.length === 0 || !newest.differing.includes(own.nodeId))
    return [];
  const nameOf = (nodeId: string) => members.find((each) => each.nodeId === nodeId)?.name ?? nodeId;
  const date = new Date(newest.comparedMs).toISOString();
  return [`this member had other content than ${newest.agreeing.map(nameOf).join(', ')} at ${date}`];
}

/** Whether every other member that answers has a lower raft index. */
function isAheadOfAll({ own, others }: Survey): boolean {
  const answering = others.flatMap(({ raftIndex }) => (raftIndex === undefined ? [] : [raftIndex]));
  const { raftIndex } = own;
  return raftIndex !== undefined && answering.length > 0 && answering.every((index) => index < raftIndex);
}
