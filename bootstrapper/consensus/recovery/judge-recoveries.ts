import { ETCD_NAMES, type EtcdName } from '../etcd-instances.ts';
import { hasLeader, judgeRecovery, type Survey } from './recover-member.ts';

/** What is known of both etcd clusters. */
export type Surveys = Readonly<Record<EtcdName, Survey>>;

/** Whether both etcd clusters can be recovered from this machine. */
export interface RecoveryVerdict {
  /** The etcd clusters without a quorum; the others are not changed. */
  readonly lost: readonly EtcdName[];
  /** Why to recover from another machine or not at all; empty where this machine is the right one. */
  readonly refusals: readonly string[];
  /** What the recovery may lose. */
  readonly losses: readonly string[];
}

/**
 * Whether to recover both etcd clusters from this machine. Where two machines are each ahead in one of them, the state etcd
 * decides, because it records which nodes were removed. Pure.
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
