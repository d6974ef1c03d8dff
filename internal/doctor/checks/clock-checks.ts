import { formatDuration } from '../../clock/index.ts';
import { MAX_CLOCK_OFFSET_MS, failed, warned, type Observation } from '../../preflight/index.ts';
import type { ClusterFacts } from '../cluster-facts.ts';
import { judgeMembers, judgePart, notMeasured, type Observe } from '../observe.ts';
import { CLOCK_WARNING_MS } from '../thresholds.ts';

const THRESHOLD = `within ${formatDuration(CLOCK_WARNING_MS)}, at most ${formatDuration(MAX_CLOCK_OFFSET_MS)}`;

/** Judges the clock of each node once: against the workstation, or else against a control plane. */
export const clock: Observe = (facts) => [...ofApiServers(facts), ...ofOtherNodes(facts)];

/** Compares the clock of each API server with the clock of the workstation. */
const ofApiServers: Observe = ({ clocks }) => {
  const threshold = THRESHOLD;
  if (clocks.length === 0) return [notMeasured({ subject: 'clock', threshold }, 'no control plane is known')];
  return clocks.flatMap(({ node, offset }) =>
    judgePart(offset, { subject: `clock of ${node}`, threshold, node }, ({ ms }) => {
      const figure = figureOf(ms, 'the workstation');
      const problem = problemOf(ms, `the clock of ${node} is ${figure}`);
      // The finding names no node: if the clock of the workstation is wrong, every node seems to have a wrong clock.
      return [{ subject: `clock of ${node}`, figure, threshold, problem }];
    }),
  );
};

/**
 * Compares the clock of each other node with that of the control plane whose curator receives its heartbeats. If only the clock of that
 * control plane is wrong, as the workstation sees it, the node is good.
 */
const ofOtherNodes: Observe = (facts) => {
  // Another check reports records that could not be read.
  if (!facts.records.ok) return [];
  const measured = measuredAt(facts);
  const ahead = new Map(
    facts.clocks.flatMap(({ node, offset }) => (offset.ok ? [[node, offset.value.ms]] : [])),
  );
  return judgeMembers(facts, THRESHOLD, ({ id, name, health }) => {
    if (health !== 'healthy' || ahead.has(name)) return [];
    const seen = { subject: `clock of ${name}`, node: name, threshold: THRESHOLD };
    const found = measured.get(id);
    if (found === undefined) return [unreported(facts, seen)];
    const { curator, ms } = found;
    const figure = figureOf(ms, curator);
    const ofCurator = ahead.get(curator) ?? 0;
    if (Math.abs(ofCurator) > CLOCK_WARNING_MS && Math.abs(ofCurator + ms) <= CLOCK_WARNING_MS)
      return [{ ...seen, figure: `${figure}, whose clock is wrong` }];
    return [{ ...seen, figure, problem: problemOf(ms, `the clock of ${name} is ${figure}`) }];
  });
};

function unreported(
  { curators }: ClusterFacts,
  { node, ...seen }: { readonly subject: string; readonly node: string; readonly threshold: string },
): Observation {
  // The curator that receives the heartbeats may be one that does not respond: a problem of another node.
  if (curators.some(({ answer }) => !answer.ok))
    return notMeasured(seen, `no curator that responds receives the heartbeats of ${node}`);
  return notMeasured({ ...seen, node }, `the agent of ${node} does not report its clock`);
}

/**
 * What the curators have measured, by the ID of the node. A node that has changed its curator may be known to two of them for a moment: the
 * smaller difference counts, because a heartbeat that is delayed makes it larger.
 */
function measuredAt({
  curators,
}: ClusterFacts): ReadonlyMap<string, { readonly curator: string; readonly ms: number }> {
  const all = curators.flatMap(({ node: curator, answer }) =>
    answer.ok ? (answer.value.clocks ?? []).map(({ nodeId, ms }) => ({ nodeId, curator, ms })) : [],
  );
  // The last one of each node is kept.
  return new Map(all.toSorted((a, b) => Math.abs(b.ms) - Math.abs(a.ms)).map((each) => [each.nodeId, each]));
}

function figureOf(ms: number, reference: string): string {
  return `${formatDuration(Math.abs(ms))} ${ms < 0 ? 'behind' : 'ahead of'} ${reference}`;
}

function problemOf(ms: number, cause: string): Observation['problem'] {
  const far = Math.abs(ms);
  return far > MAX_CLOCK_OFFSET_MS ? failed(cause) : warned(far > CLOCK_WARNING_MS ? cause : undefined);
}
