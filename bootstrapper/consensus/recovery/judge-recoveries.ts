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
  /** Data that the recovery may lose. */
  readonly losses: readonly string[];
}

/**
 * Decides whether to recover both etcd clusters from this machine. If two machines each have the newest data
 * of one cluster, the state etcd decides, because it records which nodes were removed. Pure.
 */
export function judgeRecoveries(surveys: Surveys): RecoveryVerdict {
  const lost = ETCD_NAMES.filter((name) => !hasLeader(surveys[name]));
  if (lost.length === 0) return { lost, refusals: judgeRecovery(surveys.state).refusals, losses: [] };
  const isStateAhead = lost.includes('state') && isAheadOfAll(surveys.state);
  const refused = lost.filter((name) => name === 'state' || !isStateAhead);
  const given = lost.filter((name) => !refused.includes(name));
  const titled = (name: EtcdName, texts: readonly string[]): readonly string[] =>
    texts.map((text) => `${name} etcd: ${text}`);
  return {
    lost,
    refusals: refused.flatMap((name) => titled(name, judgeRecovery(surveys[name]).refusals)),
    losses: [
      ...lost.flatMap((name) => titled(name, judgeRecovery(surveys[name]).losses)),
      ...given.flatMap((name) => titled(name, judgeRecovery(surveys[name]).refusals)),
    ],
  };
}

/** Whether every other member that answers has a lower raft index. */
function isAheadOfAll({ own, others }: Survey): boolean {
  const answering = others.flatMap(({ raftIndex }) => (raftIndex === undefined ? [] : [raftIndex]));
  const { raftIndex } = own;
  return raftIndex !== undefined && answering.length > 0 && answering.every((index) => index < raftIndex);
}
