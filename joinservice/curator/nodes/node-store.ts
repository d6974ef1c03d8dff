import type { Entry, KeySpace } from '../../../internal/etcd/index.ts';
import {
  NODES_PREFIX,
  nodeNameKey,
  parseNodeKey,
  records,
  type NodePart,
} from '../../../internal/records/index.ts';
import { CuratorError } from '../errors.ts';
import { nodeViewFrom } from './node-feed.ts';
import type { NodeView } from './node-wire.ts';

/** Reads nodes from etcd, linearizably and without a cache. */
export class NodeStore {
  readonly #etcd: KeySpace;

  constructor(etcd: KeySpace) {
    this.#etcd = etcd;
  }

  /** All nodes, and the etcd revision at which they were read. */
  list(signal: AbortSignal): Promise<{ readonly revision: bigint; readonly nodes: readonly NodeView[] }> {
    return this.#list(NODES_PREFIX, signal);
  }

  async #list(prefix: string, signal: AbortSignal) {
    const { revision, entries } = await this.#etcd.list(prefix, { signal });
    const parts = new Map<string, Partial<Record<NodePart, Entry>>>();
    for (const entry of entries) {
      const parsed = parseNodeKey(entry.key);
      if (parsed !== undefined)
        parts.set(parsed.nodeId, { ...parts.get(parsed.nodeId), [parsed.part]: entry });
    }
    return { revision, nodes: [...parts.values()].flatMap((each) => nodeViewFrom(each) ?? []) };
  }

  /** A node by ID or name. @throws CuratorError `curator-node-unknown` */
  async get(idOrName: string, signal: AbortSignal): Promise<NodeView> {
    const found = (await this.#byId(idOrName, signal)) ?? (await this.#byName(idOrName, signal));
    if (found === undefined) throw unknownNode(idOrName);
    return found;
  }

  async #byId(nodeId: string, signal: AbortSignal): Promise<NodeView | undefined> {
    // The keys of a node are below NODES_PREFIX/ID/; a slash in the ID would match a key of another node.
    if (nodeId === '' || nodeId.includes('/')) return undefined;
    return (await this.#list(`${NODES_PREFIX}${nodeId}/`, signal)).nodes[0];
  }

  async #byName(name: string, signal: AbortSignal): Promise<NodeView | undefined> {
    const entry = await this.#etcd.get(nodeNameKey(name), { signal });
    return entry === undefined ? undefined : this.#byId(new TextDecoder().decode(entry.value), signal);
  }
}

/** The error for an ID or name without a node. */
export function unknownNode(idOrName: string): CuratorError {
  return new CuratorError('curator-node-unknown', `node ${JSON.stringify(idOrName.slice(0, 80))} not found`);
}

/** The etcd condition that the record of a node is unchanged since it was read. */
export function unchangedView(view: NodeView) {
  return {
    kind: 'unchanged' as const,
    key: records.node.key(view.record.nodeId),
    modRevision: view.recordRevision,
  };
}
