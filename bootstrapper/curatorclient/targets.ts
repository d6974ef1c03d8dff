import { formatEndpoint } from '../../internal/endpoint/index.ts';
import type { ControlPlaneNode } from './directory.ts';

/** Time after a failure for which a curator is ranked last. */
const COOL_DOWN_MS = 5_000;

/** A curator that can be called. */
export interface CuratorTarget {
  /** "host:port" */
  readonly endpoint: string;
  /**
   * Id of the node that must respond. undefined for a configured address or a relay, where any control plane
   * may respond.
   */
  readonly nodeId: string | undefined;
  /** How the target is known. The sources are listed in order of preference. */
  readonly source: (typeof SOURCES)[number];
}

/**
 * `directory`: the curator has announced that it serves. `unseen`: a control plane whose curator has not
 * announced itself. `written`: an address that an operator configured. `relay`: a worker that forwards
 * connections.
 */
const SOURCES = ['directory', 'unseen', 'written', 'relay'] as const;

export interface TargetOptions {
  readonly directory: readonly ControlPlaneNode[];
  /** Hosts that operators have configured. They are used if no listed curator responds. */
  readonly staticHosts: readonly string[];
  /** Hosts of workers that forward connections. */
  readonly relays: readonly string[];
  readonly port: number;
  readonly relayPort: number;
}

/**
 * Lists all targets, including control planes whose curator has not announced itself. If all other curators
 * are lost, the remaining curator cannot announce itself to any of them.
 */
export function curatorTargets(options: TargetOptions): readonly CuratorTarget[] {
  const { directory, staticHosts, relays, port, relayPort } = options;
  const all: readonly CuratorTarget[] = [
    ...directory.map(({ nodeId, host, curator }) =>
      targetAt({ host, port, nodeId, source: curator ? 'directory' : 'unseen' }),
    ),
    ...staticHosts.map((host) => targetAt({ host, port, nodeId: undefined, source: 'written' })),
    ...relays.map((host) => targetAt({ host, port: relayPort, nodeId: undefined, source: 'relay' })),
  ];
  const first = new Map<string, CuratorTarget>();
  // A configured address is a separate target even if the list of curators contains it: another control plane
  // may use this address now.
  for (const target of all) if (!first.has(targetKey(target))) first.set(targetKey(target), target);
  return [...first.values()];
}

function targetAt({
  host,
  port,
  ...target
}: Omit<CuratorTarget, 'endpoint'> & { readonly host: string; readonly port: number }): CuratorTarget {
  return { ...target, endpoint: formatEndpoint(host, port) };
}

/** Facts that determine the order of targets. */
export interface RankingFacts {
  readonly nowMs: number;
  readonly ownNodeId: string | undefined;
  /** Time of each target's last failure, by `targetKey`. */
  readonly failedAtMs: ReadonlyMap<string, number>;
  /** Number of running calls at each target, by `targetKey`. */
  readonly callsInFlight: ReadonlyMap<string, number>;
  /** A random number of this node, so that nodes start with different curators. */
  readonly offset: number;
}

/**
 * Whether only one target of this kind is tried in a round. Trying several dead targets would take minutes.
 */
export function isLastResort({ source }: CuratorTarget): boolean {
  return source === 'written' || source === 'relay';
}

/**
 * Sorts targets by preference. Listed curators come before last resorts, and working targets before those
 * that failed recently. Then the order is by source, this node first, then the least busy. Of the last
 * resorts, the one whose failure is oldest comes first.
 */
export function rankTargets(
  targets: readonly CuratorTarget[],
  facts: RankingFacts,
): readonly CuratorTarget[] {
  const { nowMs, ownNodeId, failedAtMs, callsInFlight: users, offset } = facts;
  const ranked = targets.map((target, index) => {
    const failed = failedAtMs.get(targetKey(target));
    const cooling = failed !== undefined && nowMs - failed < COOL_DOWN_MS;
    const rank = [
      isLastResort(target) ? 1 : 0,
      cooling ? failed : -Infinity,
      isLastResort(target) ? (failed ?? -Infinity) : 0,
      SOURCES.indexOf(target.source),
      target.nodeId !== undefined && target.nodeId === ownNodeId ? 0 : 1,
      users.get(targetKey(target)) ?? 0,
      (index + offset) % targets.length,
    ];
    return { target, rank };
  });
  return ranked.toSorted((a, b) => compare(a.rank, b.rank)).map(({ target }) => target);
}

/** Key that identifies a target in maps. */
export function targetKey({ endpoint, nodeId }: CuratorTarget): string {
  return `${nodeId ?? ''} ${endpoint}`;
}

function compare(a: readonly number[], b: readonly number[]): number {
  for (const [index, value] of a.entries()) {
    const other = b[index] ?? 0;
    if (value !== other) return value < other ? -1 : 1;
  }
  return 0;
}
