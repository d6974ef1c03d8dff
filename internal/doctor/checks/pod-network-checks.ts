import { failed, type Observation } from '../../preflight/index.ts';
import type { NodeFacts, RecordFacts } from '../cluster-facts.ts';
import { judgePart, type Observe } from '../observe.ts';

/** The maximum number of nodes that a sentence names. The sentence ends with the count of the others. */
const MAX_NAMED = 5;

/** A node that does not reach another one through the network of pods. */
interface Gap {
  readonly from: string;
  readonly to: string;
}

/**
 * Whether nodes answer each other through the network of pods. A gap between two nodes is attributed to the node that has
 * the most gaps: usually one node is cut off from many.
 */
export const podNetwork: Observe = ({ records }) => {
  const threshold = 'nodes answer each other';
  return judgePart(records, { subject: 'pod network', threshold }, (value) => {
    const nodes = probingNodes(value);
    if (nodes.length === 0) return [{ subject: 'pod network', figure: 'not probed', threshold }];
    const gaps = gapsBetween(nodes);
    const good = nodes
      .filter(({ name }) => gaps.every(({ from, to }) => from !== name && to !== name))
      .map(({ name }): Observation => {
        return { subject: `pod network of ${name}`, node: name, figure: 'other nodes answer', threshold };
      });
    const bad = attributed(gaps).map(([node, others]): Observation => {
      const more = others.length > MAX_NAMED ? ` and ${others.length - MAX_NAMED} more` : '';
      const named = `${others.slice(0, MAX_NAMED).join(', ')}${more}`;
      const cause = `pods on ${node} do not reach pods on ${named} (VXLAN, UDP port 8472)`;
      const figure = `${others.length} do not answer`;
      return { subject: `pod network of ${node}`, node, figure, threshold, problem: failed(cause) };
    });
    return [...bad, ...good];
  });
};

/**
 * The nodes that are up and probe others. A silent node does not answer either, and what it has reported is outdated; it
 * has a check of its own, doctor-node-silent.
 */
function probingNodes({ nodes }: RecordFacts): readonly NodeFacts[] {
  return nodes.filter(
    ({ state, health, machine }) =>
      state === 'up' && health === 'healthy' && machine?.podNetwork !== undefined,
  );
}

function gapsBetween(nodes: readonly NodeFacts[]): readonly Gap[] {
  const names = new Map(nodes.map(({ name, machine }) => [machine?.podNetwork?.address, name]));
  return nodes.flatMap(({ name: from, machine }) =>
    (machine?.podNetwork?.unreachable ?? []).flatMap((address) => {
      const to = names.get(address);
      return to === undefined || to === from ? [] : [{ from, to }];
    }),
  );
}

/** The nodes that explain all gaps, with the other ends of their gaps: the node with the most gaps first. */
function attributed(gaps: readonly Gap[]): readonly (readonly [node: string, others: readonly string[]])[] {
  const counts = new Map<string, number>();
  for (const name of gaps.flatMap(({ from, to }) => [from, to]))
    counts.set(name, (counts.get(name) ?? 0) + 1);
  const [worst] = [...counts].toSorted(([, a], [, b]) => b - a);
  if (worst === undefined) return [];
  const [node] = worst;
  const own = gaps.filter(({ from, to }) => from === node || to === node);
  const others = [...new Set(own.map(({ from, to }) => (from === node ? to : from)))];
  const rest = attributed(gaps.filter((gap) => !own.includes(gap)));
  return [[node, others.toSorted((a, b) => a.localeCompare(b, 'en', { numeric: true }))], ...rest];
}
