import { warned, type Observation } from '../../preflight/index.ts';
import type { ClusterFacts, NodeFacts } from '../cluster-facts.ts';
import { judgePart, notMeasured, type Observe } from '../observe.ts';
import { ROUND_TRIP_FLOOR_MS, ROUND_TRIP_WARNING_MS } from '../thresholds.ts';
import { attributed, named, probingNodes, type Gap } from './pod-network-checks.ts';

/** The usual round trip from a node to another one, through the network of pods. */
export interface NodeRoundTrip extends Gap {
  /** The median; `ROUND_TRIP_FLOOR_MS`: at most this. */
  readonly ms: number;
}

/** The matrix of latencies: the round trips that the nodes have measured. Empty if the records cannot be read. */
export function nodeRoundTrips({ records }: Pick<ClusterFacts, 'records'>): readonly NodeRoundTrip[] {
  return records.ok ? roundTripsBetween(probingNodes(records.value)) : [];
}

/**
 * How long packets take from each node to others. A slow round trip is attributed to the node that has the most of them:
 * usually one node is far from many, or overloaded.
 */
export const nodeLatency: Observe = ({ records }) => {
  const threshold = `median round trip at most ${ROUND_TRIP_WARNING_MS} ms`;
  return judgePart(records, { subject: 'round trips', threshold }, (value) => {
    const nodes = probingNodes(value);
    if (nodes.length === 0) return [{ subject: 'round trips', figure: 'not probed', threshold }];
    const all = roundTripsBetween(nodes);
    const bad = attributed(all.filter(isSlow)).map(({ node, others, gaps }): Observation => {
      const worst = slowest(gaps);
      const figure = worst === undefined ? '' : figureOf(worst, node);
      const cause = `packets between ${node} and ${named(others)} take up to ${worst?.ms} ms there and back (median), through the network of pods`;
      return { subject: `round trips of ${node}`, node, figure, threshold, problem: warned(cause) };
    });
    const rest = nodes
      .filter(({ name }) => bad.every(({ node }) => node !== name))
      .flatMap(({ name, machine }): readonly Observation[] => {
        const seen = { subject: `round trips of ${name}`, node: name, threshold };
        if (machine?.podNetwork?.roundTrips === undefined)
          return [notMeasured(seen, `the agent of ${name} does not measure round trips to other nodes`)];
        const own = all.filter(({ from }) => from === name);
        const worst = slowest(own.filter((each) => !isSlow(each)));
        if (worst !== undefined) return [{ ...seen, figure: figureOf(worst, name) }];
        // If all of its round trips are slow, the causes above name the node.
        return own.length > 0 ? [] : [{ ...seen, figure: 'not measured yet' }];
      });
    return [...bad, ...rest];
  });
};

function isSlow({ ms }: NodeRoundTrip): boolean {
  return ms > ROUND_TRIP_WARNING_MS;
}

/** "median round trip at most 5 ms, to n3" of n1. */
function figureOf({ from, to, ms }: NodeRoundTrip, node: string): string {
  const amount = ms > ROUND_TRIP_FLOOR_MS ? `about ${ms} ms` : `at most ${ROUND_TRIP_FLOOR_MS} ms`;
  return `median round trip ${amount}, to ${from === node ? to : from}`;
}

/** The first one of equal ones. */
function slowest(all: readonly NodeRoundTrip[]): NodeRoundTrip | undefined {
  return all.toSorted((a, b) => b.ms - a.ms)[0];
}

/** Leaves out addresses that no node has reported as its own. */
function roundTripsBetween(nodes: readonly NodeFacts[]): readonly NodeRoundTrip[] {
  const names = new Map(nodes.map(({ name, machine }) => [machine?.podNetwork?.address, name]));
  return nodes.flatMap(({ name: from, machine }) =>
    (machine?.podNetwork?.roundTrips ?? []).flatMap(({ address, ms }) => {
      const to = names.get(address);
      return to === undefined || to === from ? [] : [{ from, to, ms }];
    }),
  );
}
