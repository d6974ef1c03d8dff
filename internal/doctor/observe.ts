import { warned, type Observation } from '../preflight/index.ts';
import type { ClusterFacts, FactsPart, NodeFacts } from './cluster-facts.ts';

/** A function that judges facts for one check. */
export type Observe = (facts: ClusterFacts) => readonly Observation[];

/** The figure of a subject whose facts could not be collected. */
export const NOT_MEASURED = 'not measured';

type Unjudged = Pick<Observation, 'subject' | 'threshold' | 'node'>;

/** The result for a subject whose facts are missing: never good. */
export function notMeasured(seen: Unjudged, cause: string): Observation {
  return { ...seen, figure: NOT_MEASURED, problem: { status: 'skipped', cause } };
}

/**
 * Judges a part of the facts. If the part could not be collected, the only result is "not measured" for the subject
 * `unjudged`.
 */
export function judgePart<T>(
  part: FactsPart<T>,
  unjudged: Unjudged,
  judge: (value: T) => readonly Observation[],
): readonly Observation[] {
  return part.ok ? judge(part.value) : [notMeasured(unjudged, part.error)];
}

/** Judges each node of the cluster that is up. If the records cannot be read, the only result says why. */
export function judgeMembers(
  facts: ClusterFacts,
  threshold: string,
  judge: (node: NodeFacts) => readonly Observation[],
): readonly Observation[] {
  return judgePart(facts.records, { subject: 'nodes', threshold }, ({ nodes }) =>
    nodes.filter(({ state }) => state === 'up').flatMap(judge),
  );
}

/** The maximum number of findings of one check that name one object each. */
const MAX_LISTED = 20;

/**
 * Judges each of many objects, for which nobody reads a sentence each: one finding counts those above the maximum.
 * @param rest the subject and threshold of that finding, and the words that follow the number: "pods are not ready"
 */
export function judgeListed<T>(
  all: readonly T[],
  judge: (each: T) => Observation,
  { words, ...rest }: Pick<Observation, 'subject' | 'threshold'> & { readonly words: string },
): readonly Observation[] {
  const listed = all.slice(0, MAX_LISTED).map(judge);
  const more = all.length - listed.length;
  if (more === 0) return listed;
  return [...listed, { ...rest, figure: `${more} more`, problem: warned(`${more} more ${words}`) }];
}

/** "37%" of a share between 0 and 1. Rounds down, so that 99.9% is not shown as full. */
export function percent(share: number): string {
  return `${Math.floor(share * 100)}%`;
}
