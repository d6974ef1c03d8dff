import { VXLAN_PORT } from '../../endpoint/index.ts';
import { failed, type Observation } from '../../preflight/index.ts';
import { counted } from '../../printable/index.ts';
import type { MachineFacts, NodeFacts, RecordFacts } from '../cluster-facts.ts';
import { judgePart, type Observe } from '../observe.ts';

/** The maximum number of nodes that a sentence names. The sentence ends with the count of the others. */
const MAX_NAMED = 5;

/** Two nodes between which something is wrong in the network of pods, for example that the first does not reach the second. */
export interface Gap {
  readonly from: string;
  readonly to: string;
}

/** A node with its gaps. */
interface Attributed<T extends Gap> {
  readonly node: string;
  /** The other ends of the gaps. */
  readonly others: readonly string[];
  readonly gaps: readonly T[];
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
    const gaps = gapsBetween(nodes, ({ unreachable }) => unreachable);
    const good = nodes
      .filter(({ name }) => gaps.every(({ from, to }) => from !== name && to !== name))
      .map(({ name }): Observation => {
        return { subject: `pod network of ${name}`, node: name, figure: 'other nodes answer', threshold };
      });
    const bad = attributed(gaps).map(({ node, others }): Observation => {
      const cause = `pods on ${node} do not reach pods on ${named(others)} (VXLAN, UDP port ${VXLAN_PORT})`;
      const figure = `${others.length} do not answer`;
      return { subject: `pod network of ${node}`, node, figure, threshold, problem: failed(cause) };
    });
    return [...bad, ...good];
  });
};

/**
 * Whether full-size packets arrive at other nodes. Judges the nodes that have tried it: older agents do not, and a new node
 * has not yet.
 */
export const mtu: Observe = ({ records }) => {
  const threshold = 'full-size packets arrive';
  return judgePart(records, { subject: 'packet size', threshold }, (value) => {
    const nodes = probingNodes(value).filter(({ machine }) => machine?.podNetwork?.fullPackets !== undefined);
    const losses = gapsBetween(nodes, ({ fullPackets }) => fullPackets?.lost ?? []);
    const bad = attributed(losses).map(({ node, others, gaps }): Observation => {
      const figure = `lost between ${node} and ${others.length === 1 ? 'another node' : `${others.length} others`}`;
      const cause = `full-size packets ${wayOf(node, others, gaps)} are lost (MTU): connections open, and hang as soon as they carry more than a little`;
      return { subject: `packet size of ${node}`, node, figure, threshold, problem: failed(cause) };
    });
    const good = nodes
      .filter(({ name }) => losses.every(({ from, to }) => from !== name && to !== name))
      .map(({ name, machine }): Observation => {
        const judged = machine?.podNetwork?.fullPackets?.judged ?? 0;
        const figure = judged === 0 ? 'not tried yet' : `arrive at ${counted(judged, 'other node')}`;
        return { subject: `packet size of ${name}`, node: name, figure, threshold };
      });
    const seen = [...bad, ...good];
    return seen.length === 0 ? [{ subject: 'packet size', figure: 'not tried', threshold }] : seen;
  });
};

/**
 * Whether the DNS of the cluster answers each node. Passes over nodes that do not ask it: older agents, and nodes without the
 * network chart.
 */
export const nameLookup: Observe = ({ records }) => {
  const threshold = 'at most 1m without an answer';
  return judgePart(records, { subject: 'name lookup', threshold }, ({ nodes }) => {
    const seen = nodes.flatMap(({ name, state, health, machine }): readonly Observation[] => {
      const lookup = machine?.nameLookup;
      if (state !== 'up' || health !== 'healthy' || lookup === undefined) return [];
      const { failure } = lookup;
      const cause = `the DNS of the cluster does not serve pods on ${name}: ${failure}`;
      const figure = failure === '' ? 'answers' : 'fails';
      const problem = failed(failure === '' ? undefined : cause);
      return [{ subject: `name lookup of ${name}`, node: name, figure, threshold, problem }];
    });
    return seen.length === 0 ? [{ subject: 'name lookup', figure: 'not asked', threshold }] : seen;
  });
};

/** "from n4 to n2", or "between n4 and n2" if packets are lost in both directions. */
function wayOf(node: string, others: readonly string[], gaps: readonly Gap[]): string {
  if (gaps.every(({ from }) => from === node)) return `from ${node} to ${named(others)}`;
  if (gaps.every(({ to }) => to === node)) return `from ${named(others)} to ${node}`;
  return `between ${node} and ${named(others)}`;
}

/** "n1, n2", or "n1, n2, n3, n4, n5 and 3 more". */
export function named(nodes: readonly string[]): string {
  const more = nodes.length > MAX_NAMED ? ` and ${nodes.length - MAX_NAMED} more` : '';
  return `${nodes.slice(0, MAX_NAMED).join(', ')}${more}`;
}

/**
 * The nodes that are up and probe others. A silent node does not answer either, and what it has reported is outdated; it
 * has a check of its own, doctor-node-silent.
 */
export function probingNodes({ nodes }: RecordFacts): readonly NodeFacts[] {
  return nodes.filter(
    ({ state, health, machine }) =>
      state === 'up' && health === 'healthy' && machine?.podNetwork !== undefined,
  );
}

type PodNetwork = NonNullable<MachineFacts['podNetwork']>;

/** @param read the addresses of nodes that a node does not reach */
function gapsBetween(
  nodes: readonly NodeFacts[],
  read: (podNetwork: PodNetwork) => readonly string[],
): readonly Gap[] {
  const names = new Map(nodes.map(({ name, machine }) => [machine?.podNetwork?.address, name]));
  return nodes.flatMap(({ name: from, machine }) =>
    (machine?.podNetwork === undefined ? [] : read(machine.podNetwork)).flatMap((address) => {
      const to = names.get(address);
      return to === undefined || to === from ? [] : [{ from, to }];
    }),
  );
}

/** The nodes that explain all gaps, with the other ends of their gaps: the node with the most gaps first. */
export function attributed<T extends Gap>(gaps: readonly T[]): readonly Attributed<T>[] {
  const counts = new Map<string, number>();
  for (const name of gaps.flatMap(({ from, to }) => [from, to]))
    counts.set(name, (counts.get(name) ?? 0) + 1);
  const [worst] = [...counts].toSorted(([, a], [, b]) => b - a);
  if (worst === undefined) return [];
  const [node] = worst;
  const own = gaps.filter(({ from, to }) => from === node || to === node);
  const others = [...new Set(own.map(({ from, to }) => (from === node ? to : from)))];
  const rest = attributed(gaps.filter((gap) => !own.includes(gap)));
  const sorted = others.toSorted((a, b) => a.localeCompare(b, 'en', { numeric: true }));
  return [{ node, others: sorted, gaps: own }, ...rest];
}
