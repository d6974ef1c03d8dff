import { formatDuration } from '../../clock/index.ts';
import { failed, warned, type Observation } from '../../preflight/index.ts';
import type { EtcdContentFacts, EtcdFacts, RecordFacts } from '../cluster-facts.ts';
import { newestComparison } from '../content/newest-comparison.ts';
import { notMeasured, type Observe } from '../observe.ts';
import { CONTENT_WARNING_MS } from '../thresholds.ts';
import { ETCDS, judgeEtcds } from './etcd-checks.ts';

/** Nobody can say which member is right, so none may be taken out. */
const NO_MAJORITY_FIX =
  'Change no roles: nobody can say which member is right. Take a backup from each of the control planes (`cluster backup create --node NAME --to FILE`), compare them with the newest proved backup, and keep the data of the right one: read "A member of etcd has other content" in docs/recovery.md.';

/** Whether the alarm CORRUPT of an etcd is active. */
export const corrupt: Observe = (facts) => {
  const threshold = 'no alarm';
  const causeOf = (subject: string): string =>
    `the ${subject} has the alarm CORRUPT: members were found to differ, and it refuses every read and write`;
  const { records } = facts;
  if (!records.ok && records.codes.includes('etcd-corrupt')) {
    const subject = 'state etcd';
    return [{ subject, figure: 'alarm CORRUPT', threshold, problem: failed(causeOf(subject)) }];
  }
  return judgeEtcds(facts, threshold, ({ isCorrupt }, subject) => {
    const figure = isCorrupt === true ? 'alarm CORRUPT' : 'no alarm';
    return [
      { subject, figure, threshold, problem: failed(isCorrupt === true ? causeOf(subject) : undefined) },
    ];
  });
};

/** Whether all voting members of each etcd have the same content. */
export const content: Observe = (facts) => {
  const threshold = `all members agree, compared within ${formatDuration(CONTENT_WARNING_MS)}`;
  return judgeEtcds(facts, threshold, (etcd, subject, { nodes }) => {
    const seen = { subject, threshold };
    const voters = etcd.members.filter(({ isLearner }) => !isLearner).map(({ name }) => name);
    if (voters.length < 2) return [{ ...seen, figure: 'one member' }];
    const key = ETCDS.find((each) => each.subject === subject)?.name ?? 'state';
    const planes = nodes.filter(({ isControlPlane, state }) => isControlPlane && state === 'up');
    const reports = planes.flatMap(({ health, etcdContents }) => {
      const report = etcdContents?.[key];
      return report === undefined ? [] : [{ ...report, isHealthy: health === 'healthy' }];
    });
    if (reports.length === 0)
      return [notMeasured(seen, `no control plane reports whether the members of the ${subject} agree`)];
    const areHealthy = etcd.hasLeader && planes.every(({ health }) => health === 'healthy');
    return judgeReports(reports, { ...seen, voters, nodes, areHealthy, takenMs: facts.takenMs });
  });
};

interface Judged {
  readonly subject: string;
  readonly threshold: string;
  /** IDs of the nodes whose members vote. */
  readonly voters: readonly EtcdFacts['members'][number]['name'][];
  readonly nodes: RecordFacts['nodes'];
  /** Whether nothing else explains that there was no comparison. */
  readonly areHealthy: boolean;
  readonly takenMs: number;
}

/** Only the control plane of the leader compares, and the leader changes: the newest comparison counts. */
function judgeReports(
  reports: readonly (EtcdContentFacts & { readonly isHealthy: boolean })[],
  judged: Judged,
): readonly Observation[] {
  const { subject, threshold, voters, nodes, areHealthy, takenMs } = judged;
  const seen = { subject, threshold };
  const newest = newestComparison(reports);
  // A node that was taken out since the comparison is no member any more.
  const names = (ids: readonly string[] = []): readonly string[] =>
    ids.filter((id) => voters.includes(id)).map((id) => nodes.find((node) => node.id === id)?.name ?? id);
  const [agreeing, differing] = [names(newest?.agreeing), names(newest?.differing)];
  const age = newest && `compared ${formatDuration(takenMs - newest.comparedMs)} ago`;
  if (agreeing.length > 0 && differing.length > 0)
    return differing.map((name) => ({
      ...{ subject: `${subject} of ${name}`, threshold, node: name, figure: `differs, ${age}` },
      problem: failed(`the ${subject} member of ${name} has other content than ${listed(agreeing)}`),
    }));
  if (differing.length > 1) {
    const cause = `the ${subject} members of ${listed(differing)} differ from each other, and no majority agrees`;
    return [
      {
        ...{ ...seen, figure: `differ, ${age}` },
        problem: { status: 'failed', cause, fix: NO_MAJORITY_FIX },
      },
    ];
  }
  const figure =
    age === undefined ? 'not compared yet' : `${agreeing.length} of ${voters.length} members agree, ${age}`;
  // An agent that has just started knows no earlier comparison.
  const since = reports.filter(({ isHealthy }) => isHealthy).map(({ sinceMs }) => sinceMs);
  const waitedMs = takenMs - Math.max(newest?.comparedMs ?? -Infinity, ...since);
  const cause = `the members of the ${subject} were not compared for ${formatDuration(waitedMs)}`;
  return [
    { ...seen, figure, problem: warned(areHealthy && waitedMs > CONTENT_WARNING_MS ? cause : undefined) },
  ];
}

/** "n1", "n1 and n3", "n1, n3 and n5". */
function listed(names: readonly string[]): string {
  const [last = '', ...others] = names.toReversed();
  return others.length === 0 ? last : `${others.toReversed().join(', ')} and ${last}`;
}
