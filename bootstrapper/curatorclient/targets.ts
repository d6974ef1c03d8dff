import { formatEndpoint } from '../../internal/endpoint/index.ts';
import type { ControlPlaneNode } from './directory.ts';

/** How long a curator that failed is asked last. */
const COOL_DOWN_MS = 5_000;

/** One curator that may be asked. */
export interface CuratorTarget {
  /** "host:port" */
  readonly endpoint: string;
  /** Who must answer there; undefined for an address that an operator wrote down and for a relay: any control plane. */
  readonly nodeId: string | undefined;
  /** Where it is known from; the order is the one they are asked in. */
  readonly source: (typeof SOURCES)[number];
}

/**
 * `directory`: seen to serve. `unseen`: a control plane whose curator was not. `written`: told by an operator. `relay`: a worker
 * that passes connections on.
 */
const SOURCES = ['directory', 'unseen', 'written', 'relay'] as const;

export interface TargetOptions {
  readonly directory: readonly ControlPlaneNode[];
  /** Hosts that an operator wrote down: where to ask when nobody in the directory answers. */
  readonly staticHosts: readonly string[];
  /** Hosts of workers that pass connections on, at a port of their own. */
  readonly relays: readonly string[];
  readonly port: number;
  readonly relayPort: number;
}

/**
 * Everybody who may be asked, also where no curator has been seen: all that were may be lost, and then the one that is
 * left could tell nobody that it serves.
 */
export function curatorTargets(options: TargetOptions): readonly CuratorTarget[] {
  const { directory, staticHosts, relays, port, relayPort } = options;
  const all: readonly CuratorTarget[] = [
    ...directory.map(({ nodeId, host, curator }) => ({
      nodeId,
      endpoint: formatEndpoint(host, port),
      source: curator ? ('directory' as const) : ('unseen' as const),
    })),
    ...staticHosts.map((host) => ({
      nodeId: undefined,
      endpoint: formatEndpoint(host, port),
      source: 'written' as const,
    })),
    ...relays.map((host) => ({
      nodeId: undefined,
      endpoint: formatEndpoint(host, relayPort),
      source: 'relay' as const,
    })),
  ];
  const first = new Map<string, CuratorTarget>();
  // A written address stays one also where the directory has it: another control plane may have taken it over.
  for (const target of all) if (!first.has(targetKey(target))) first.set(targetKey(target), target);
  return [...first.values()];
}

export interface RankingFacts {
  readonly nowMs: number;
  readonly ownNodeId: string | undefined;
  /** When each last failed, by `keyOf`. */
  readonly failedAtMs: ReadonlyMap<string, number>;
  /** How much is under way at each, by `keyOf`. */
  readonly callsInFlight: ReadonlyMap<string, number>;
  /** Differs from node to node, so that not all of them begin with the same one. */
  readonly offset: number;
}

/** Of them one is asked in a round: eight that are off would keep this node for minutes from curators that are back. */
export function isLastResort({ source }: CuratorTarget): boolean {
  return source === 'written' || source === 'relay';
}

/**
 * Whom to ask, in order: whom the cluster names before last resorts, who works before who failed lately, by source, the own node
 * before others, the least busy of those; of last resorts the one whose failure is the longest ago.
 */
export function rankTargets(
  targets: readonly CuratorTarget[],
  standing: RankingFacts,
): readonly CuratorTarget[] {
  const { nowMs, ownNodeId, failedAtMs, callsInFlight: users, offset } = standing;
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
