import { ETCD_NAMES, type EtcdName } from '../etcd-instances.ts';
import { hasLeader, judgeRecovery, type Survey } from './recover-member.ts';

export type Surveys = Readonly<Record<EtcdName, Survey>>;

export interface RecoveryVerdict {
  /** Those that have lost their quorum; the others are left alone. */
  readonly lost: readonly EtcdName[];
  /** Why not to recover from this machine; empty where it may be done. */
  readonly refusals: readonly string[];
  readonly losses: readonly string[];
}

/**
 * Whether this machine is the one to recover from, for both etcd clusters together. Two survivors may each be ahead in
 * one of the two: then the state etcd decides, because it holds who was removed from the cluster. Pure.
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

/** Whether every other member that answers has decided less than this one. */
function isAheadOfAll({ own, others }: Survey): boolean {
  const answering = others.flatMap(({ raftIndex }) => (raftIndex === undefined ? [] : [raftIndex]));
  const { raftIndex } = own;
  return raftIndex !== undefined && answering.length > 0 && answering.every((index) => index < raftIndex);
}
