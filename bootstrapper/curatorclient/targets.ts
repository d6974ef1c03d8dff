import type { ControlPlaneNode } from './directory.ts';

/** How long a curator that failed is asked last. */
const COOL_DOWN_MS = 5_000;

/** One curator that may be asked. */
export interface CuratorTarget {
  /** "host:port" */
  readonly endpoint: string;
  /** Who must answer there; undefined for an address that an operator wrote down: any node of this cluster. */
  readonly nodeId: string | undefined;
  /** A control plane whose curator the directory has not seen. */
  readonly isUnseen?: boolean;
}

export interface TargetOptions {
  readonly directory: readonly ControlPlaneNode[];
  /** Hosts from the machine's provisioning: where to ask when nobody in the directory answers. */
  readonly staticHosts: readonly string[];
  readonly port: number;
}

/**
 * Everybody who may be asked, also where no curator has been seen: all that were may be lost, and then the one that is
 * left could tell nobody that it serves.
 */
export function targetsOf({ directory, staticHosts, port }: TargetOptions): readonly CuratorTarget[] {
  const nodes = directory.map(({ nodeId, host, curator }) => ({
    nodeId,
    endpoint: endpointOf(host, port),
    ...(curator ? {} : { isUnseen: true }),
  }));
  const known = new Set(nodes.map(({ endpoint }) => endpoint));
  const others = staticHosts.map((host) => endpointOf(host, port)).filter((each) => !known.has(each));
  return [...nodes, ...others.map((endpoint) => ({ endpoint, nodeId: undefined }))];
}

export interface Standing {
  readonly nowMs: number;
  readonly ownNodeId: string | undefined;
  /** When each last failed, by `keyOf`. */
  readonly failedAtMs: ReadonlyMap<string, number>;
  /** How much is under way at each, by `keyOf`. */
  readonly users: ReadonlyMap<string, number>;
  /** Differs from node to node, so that not all of them begin with the same one. */
  readonly offset: number;
}

/**
 * Whom to ask, in order: who works before who failed lately, those that were seen before other control planes and these before
 * written addresses, the own node before others, the least busy of those.
 */
export function rankTargets(targets: readonly CuratorTarget[], standing: Standing): readonly CuratorTarget[] {
  const { nowMs, ownNodeId, failedAtMs, users, offset } = standing;
  const ranked = targets.map((target, index) => {
    const failed = failedAtMs.get(keyOf(target));
    const cooling = failed !== undefined && nowMs - failed < COOL_DOWN_MS;
    const rank = [
      cooling ? failed : -Infinity,
      target.nodeId === undefined ? 2 : target.isUnseen === true ? 1 : 0,
      target.nodeId !== undefined && target.nodeId === ownNodeId ? 0 : 1,
      users.get(keyOf(target)) ?? 0,
      (index + offset) % targets.length,
    ];
    return { target, rank };
  });
  return ranked.toSorted((a, b) => compare(a.rank, b.rank)).map(({ target }) => target);
}

export function keyOf({ endpoint, nodeId }: CuratorTarget): string {
  return `${nodeId ?? ''} ${endpoint}`;
}

function endpointOf(host: string, port: number): string {
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
}

function compare(a: readonly number[], b: readonly number[]): number {
  for (const [index, value] of a.entries()) {
    const other = b[index] ?? 0;
    if (value !== other) return value < other ? -1 : 1;
  }
  return 0;
}
