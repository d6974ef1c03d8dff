import { warned, type Observation } from '../../preflight/index.ts';
import { formatBytes } from '../../printable/index.ts';
import type { ClusterFacts, EtcdMemberFacts } from '../cluster-facts.ts';
import { notMeasured, percent, type Observe } from '../observe.ts';
import {
  FSYNC_WARNING_MS,
  ROUND_TRIP_WARNING_MS,
  UNUSED_MIN_BYTES,
  UNUSED_WARNING_SHARE,
} from '../thresholds.ts';
import { ETCDS } from './etcd-checks.ts';

type JudgeMember = (
  found: EtcdMemberFacts,
  seen: { subject: string; node: string },
) => Observation | readonly Observation[];

/**
 * Judges every etcd member that responds. Another check, doctor-etcd-member, reports the members that do not respond.
 */
function judgeMembers(facts: ClusterFacts, threshold: string, judge: JudgeMember): readonly Observation[] {
  const members = facts.metrics.flatMap(({ node, answer }) =>
    ETCDS.flatMap(({ subject, key }) => {
      const found = answer.ok ? answer.value[key] : undefined;
      return found === undefined ? [] : judge(found, { subject: `${subject} of ${node}`, node });
    }),
  );
  // On a machine, doctor-etcd-member and the role of the node tell why there are no figures.
  if (members.length > 0 || facts.local !== undefined) return members;
  return [notMeasured({ subject: 'etcd', threshold }, 'no etcd member has reported its metrics')];
}

const NO_SIZE = 'it reports no size';

/**
 * Judges the 99th percentile of the time that an fsync of the write-ahead log takes, for each member. Of a few fsyncs, the two slowest
 * do not count: an idle member makes 16 in the seconds that are measured, so one delay is not yet a slow disk.
 */
export const fsync: Observe = (facts) => {
  const threshold = `99%, or all but 2, within ${FSYNC_WARNING_MS} ms`;
  return judgeMembers(facts, threshold, ({ fsync: measured }, seen) => {
    if (measured === undefined) return { ...seen, figure: 'too few writes to measure', threshold };
    const { ms, within, total } = measured;
    const figure = `${within} of ${total} within ${milliseconds(ms)}`;
    const cause = `the ${seen.subject} writes to a slow disk: ${within} of its last ${total} fsyncs took up to ${milliseconds(ms)}, expected ${FSYNC_WARNING_MS} ms`;
    const problem = warned(ms > FSYNC_WARNING_MS ? cause : undefined);
    return { ...seen, figure, threshold, problem };
  });
};

/** Judges the median round trip from each member to each other one. */
export const latency: Observe = (facts) => {
  const threshold = `median round trip at most ${ROUND_TRIP_WARNING_MS} ms`;
  const nameOf = new Map(
    facts.metrics.flatMap(({ node, answer }) =>
      ETCDS.flatMap(({ key }) => (answer.ok ? [[answer.value[key]?.id, node] as const] : [])),
    ),
  );
  return judgeMembers(facts, threshold, ({ peers = [], peerRoundTripMs }, { subject, node }) => {
    const to = (peer: string, ms: number): Observation => {
      const figure = `median round trip at most ${milliseconds(ms)}`;
      const cause = `the median round trip from the ${subject} to ${peer} takes up to ${milliseconds(ms)}`;
      const problem = warned(ms > ROUND_TRIP_WARNING_MS ? cause : undefined);
      return { subject: `${subject} to ${peer}`, node, figure, threshold, problem };
    };
    if (peers.length > 0) return peers.map(({ id, roundTripMs }) => to(nameOf.get(id) ?? id, roundTripMs));
    if (peerRoundTripMs !== undefined) return to('its slowest peer', peerRoundTripMs);
    return { subject, node, figure: 'no samples', threshold };
  });
};

/** Judges the share of each database that a defragmentation would free. */
export const unused: Observe = (facts) => {
  const threshold = `at most ${percent(UNUSED_WARNING_SHARE)} unused, or smaller than ${formatBytes(UNUSED_MIN_BYTES)}`;
  return judgeMembers(facts, threshold, ({ dbSizeBytes, dbInUseBytes }, seen) => {
    if (dbSizeBytes === undefined || dbInUseBytes === undefined)
      return notMeasured({ ...seen, threshold }, NO_SIZE);
    const share = dbSizeBytes === 0 ? 0 : Math.max(0, 1 - dbInUseBytes / dbSizeBytes);
    const figure = `${percent(share)} of ${formatBytes(dbSizeBytes)} unused`;
    const isMuch = share > UNUSED_WARNING_SHARE && dbSizeBytes >= UNUSED_MIN_BYTES;
    const cause = `the ${seen.subject} takes more space than its content: ${figure}`;
    return { ...seen, figure, threshold, problem: warned(isMuch ? cause : undefined) };
  });
};

function milliseconds(ms: number): string {
  return `${Number(ms.toPrecision(3))} ms`;
}
