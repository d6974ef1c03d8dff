import { formatDuration } from '../../clock/index.ts';
import { failed, warned, type Observation } from '../../preflight/index.ts';
import { counted, formatBytes } from '../../printable/index.ts';
import { quorumOf } from '../../role/index.ts';
import type { ClusterFacts, EtcdFacts, NodeMetricsFacts, RecordFacts } from '../cluster-facts.ts';
import { judgePart, notMeasured, percent, type Observe } from '../observe.ts';
import { DATABASE_WARNING_SHARE, LEARNER_WARNING_MS } from '../thresholds.ts';

/** The two etcd clusters, the member of `NodeMetricsFacts` that describes each, and its name on nodes. */
export const ETCDS = [
  { subject: 'state etcd', key: 'stateEtcd', name: 'state' },
  { subject: 'Kubernetes etcd', key: 'kubernetesEtcd', name: 'kubernetes' },
] as const;

type JudgeEtcd = (etcd: EtcdFacts, subject: string, records: RecordFacts) => readonly Observation[];

/** Judges each of the two etcd clusters that the records describe. */
export function judgeEtcds(facts: ClusterFacts, threshold: string, judge: JudgeEtcd): readonly Observation[] {
  return ETCDS.flatMap(({ subject, key }) =>
    judgePart(facts.records, { subject, threshold }, (records) => {
      const etcd = records[key];
      if (etcd === undefined)
        return [notMeasured({ subject, threshold }, 'no control plane reports its state')];
      return judge(etcd, subject, records);
    }),
  );
}

/** Whether an etcd refuses writes because its quota is used up. */
export const full: Observe = (facts) => {
  const threshold = 'accepts writes';
  return judgeEtcds(facts, threshold, ({ isFull, dbSizeBytes }, subject) => {
    const figure = isFull ? 'full' : 'accepts writes';
    const cause = `the ${subject} is full (${formatBytes(dbSizeBytes)}) and refuses every write`;
    return [{ subject, figure, threshold, problem: failed(isFull ? cause : undefined) }];
  });
};

/** Whether each etcd has a leader, a quorum, and all of its voters. */
export const quorum: Observe = (facts) => {
  const threshold = 'a leader, and all voters healthy';
  const { records } = facts;
  if (!records.ok && records.codes.some((code) => QUORUM_CODES.test(code)))
    return [
      {
        subject: 'state etcd',
        figure: 'no quorum',
        threshold,
        problem: failed('the state etcd has no quorum: curators respond, and none can read the records'),
      },
    ];
  return ETCDS.flatMap(({ subject, key }) =>
    judgePart(records, { subject, threshold }, (value) => {
      const etcd = value[key];
      if (etcd === undefined)
        return [notMeasured({ subject, threshold }, 'no control plane reports its state')];
      return [quorumOfEtcd(facts, { etcd, subject, key, nodes: value.nodes, threshold })];
    }),
  );
};

/** Not the alarm CORRUPT, which has a check of its own. */
const QUORUM_CODES = /^etcd-(?!corrupt$)|^cluster-quorum-lost$/;

function quorumOfEtcd(
  { metrics }: ClusterFacts,
  of: {
    readonly etcd: EtcdFacts;
    readonly subject: string;
    readonly key: keyof Pick<NodeMetricsFacts, 'stateEtcd' | 'kubernetesEtcd'>;
    readonly nodes: RecordFacts['nodes'];
    readonly threshold: string;
  },
): Observation {
  const { etcd, subject, key, nodes, threshold } = of;
  const voters = etcd.members.filter(({ isLearner }) => !isLearner);
  // If a node returned its metrics and they do not contain its etcd member, the member does not respond on that node.
  const silent = new Set(
    metrics.filter(({ answer }) => answer.ok && answer.value[key] === undefined).map(({ node }) => node),
  );
  const alive = new Set(
    nodes.filter(({ health, name }) => health === 'healthy' && !silent.has(name)).map(({ id }) => id),
  );
  const healthy = voters.filter(({ name }) => alive.has(name)).length;
  const needed = quorumOf(voters.length);
  const figure = `${etcd.hasLeader ? 'leader' : 'no leader'}, ${healthy} of ${counted(voters.length, 'voter')} healthy, ${needed} needed`;
  const seen = { subject, figure, threshold };
  if (!etcd.hasLeader)
    return { ...seen, problem: failed(`the ${subject} has no leader: it accepts no writes`) };
  if (healthy < needed)
    return {
      ...seen,
      problem: failed(`the ${subject} has ${counted(healthy, 'healthy voter')} and needs ${needed}`),
    };
  const spare = healthy - needed;
  const cause = `the ${subject} tolerates ${spare === 0 ? 'no further failure' : counted(spare, 'further failure')}: ${healthy} of ${voters.length} voters are healthy`;
  return { ...seen, problem: warned(healthy < voters.length ? cause : undefined) };
}

/** Whether each member responds on its own node and sees a leader. */
export const member: Observe = (facts) => {
  const threshold = 'responds, and sees a leader';
  if (facts.local?.isControlPlane === false) return [];
  const nodes = facts.records.ok ? facts.records.value.nodes : [];
  const controlPlanes = facts.records.ok
    ? new Set(nodes.filter((node) => node.isControlPlane).map(({ name }) => name))
    : undefined;
  return facts.metrics
    .filter(({ node }) => controlPlanes?.has(node) !== false)
    .flatMap(({ node, answer }) =>
      judgePart<NodeMetricsFacts>(answer, { subject: `etcd of ${node}`, threshold, node }, (value) =>
        ETCDS.map(({ subject, key }) => {
          const found = value[key];
          const seen = { subject: `${subject} of ${node}`, node, threshold };
          if (found === undefined) {
            const services = nodes.find(({ name }) => name === node)?.machine?.services;
            const why = services?.find(({ name }) => name === subject)?.why ?? 'does not respond';
            const cause = `the ${subject} member on ${node} ${why}`;
            return { ...seen, figure: 'does not respond', problem: failed(cause) };
          }
          const cause = `the ${subject} member on ${node} sees no leader`;
          const figure = found.hasLeader ? 'responds, sees a leader' : 'sees no leader';
          return { ...seen, figure, problem: failed(found.hasLeader ? undefined : cause) };
        }),
      ),
    );
};

/**
 * Whether a learner of etcd has waited unusually long for its promotion. A voter never becomes a learner again, so a
 * learner has been one at least since its process started. The record of the node only tells when the node joined: a
 * worker may become a control plane much later.
 */
export const learner: Observe = (facts) => {
  const threshold = `promoted within ${formatDuration(LEARNER_WARNING_MS)}`;
  return judgeEtcds(facts, threshold, ({ members }, subject, { nodes }) => {
    const learners = members.filter(({ isLearner }) => isLearner);
    if (learners.length === 0) return [{ subject, figure: 'no learner', threshold }];
    return learners.map(({ name: id }) => {
      const node = nodes.find((each) => each.id === id);
      const seen = { subject: `${subject} of ${node?.name ?? id}`, threshold };
      if (node === undefined)
        return {
          ...{ ...seen, figure: 'learner without a node' },
          problem: warned(`${id} is a learner of the ${subject}, and no node has this ID`),
        };
      const { name } = node;
      const startedMs = startOfMember(facts, name, subject);
      if (startedMs === undefined)
        return notMeasured(
          { ...seen, node: name },
          `${name} is a learner of the ${subject}, and its metrics do not tell since when`,
        );
      const waitedMs = Math.max(0, facts.takenMs - startedMs);
      const figure = `learner for at least ${formatDuration(waitedMs)}`;
      const cause = `${name} is a ${subject} ${figure}, and not promoted`;
      return {
        ...{ ...seen, figure, node: name },
        problem: warned(waitedMs > LEARNER_WARNING_MS ? cause : undefined),
      };
    });
  });
};

/** When the etcd member of a node started; undefined if its metrics could not be read or do not contain the time. */
function startOfMember({ metrics }: ClusterFacts, name: string, subject: string): number | undefined {
  const key = ETCDS.find((etcd) => etcd.subject === subject)?.key;
  const answer = metrics.find(({ node }) => node === name)?.answer;
  return key === undefined || answer?.ok !== true ? undefined : answer.value[key]?.startedMs;
}

/** The size of each database against its quota. */
export const size: Observe = (facts) => {
  const threshold = `at most ${percent(DATABASE_WARNING_SHARE)} of the quota`;
  return judgeEtcds(facts, threshold, ({ dbSizeBytes, quotaBytes }, subject) => {
    // Agents round the size of the Kubernetes etcd up, so that they do not report each change of it.
    const about = subject === 'Kubernetes etcd' ? 'at most ' : '';
    const figure = `${about}${formatBytes(dbSizeBytes)} of ${formatBytes(quotaBytes)}`;
    const isNear = dbSizeBytes > DATABASE_WARNING_SHARE * quotaBytes && quotaBytes > 0;
    const cause = `the ${subject} uses ${percent(dbSizeBytes / quotaBytes)} of its quota (${figure})`;
    return [{ subject, figure, threshold, problem: warned(isNear ? cause : undefined) }];
  });
};
