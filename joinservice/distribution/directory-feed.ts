import { isAbort } from '../../internal/errors/index.ts';
import type { Clock } from '../../internal/clock/index.ts';
import { EventValue, type Readable } from '../../internal/event/index.ts';
import { isControlPlane } from '../../internal/role/index.ts';
import { nodeStatusOf, type NodeFeed, type NodeView } from '../curator/index.ts';
import { RelayChoice } from './relay-choice.ts';

const RETRY_MS = 500;

/** A node with control-plane roles. */
export interface ControlPlaneEntry {
  readonly nodeId: string;
  readonly name: string;
  readonly address: string;
  readonly curatorEndpoint: string;
  readonly apiServer: boolean;
}

/** The directory of control planes, or the error that interrupted it. */
export type Directory =
  | {
      readonly kind: 'known';
      readonly entries: readonly ControlPlaneEntry[];
      /** Addresses of workers that relay connections to control planes. */
      readonly relays: readonly string[];
    }
  | { readonly kind: 'interrupted'; readonly error: unknown };

/**
 * The directory of control planes, computed once for thousands of watchers. It changes only when a control plane or a relay
 * changes; heartbeats and labels of other nodes wake no watcher.
 */
export class DirectoryFeed {
  readonly #ports: { readonly nodes: Pick<NodeFeed, 'subscribe'>; readonly clock: Clock };
  readonly #value = new EventValue<Directory>();

  constructor(ports: { readonly nodes: Pick<NodeFeed, 'subscribe'>; readonly clock: Clock }) {
    this.#ports = ports;
  }

  /** The current directory; unset before the first one. */
  get directory(): Readable<Directory> {
    return this.#value;
  }

  /** Watches the nodes until the signal fires. */
  async run(signal: AbortSignal): Promise<void> {
    for (;;) {
      try {
        await this.#follow(signal);
      } catch (error) {
        if (isAbort(error, signal)) throw error;
        this.#value.set({ kind: 'interrupted', error });
      }
      await this.#ports.clock.sleep(RETRY_MS, signal);
    }
  }

  async #follow(signal: AbortSignal): Promise<never> {
    const entries = new Map<string, ControlPlaneEntry>();
    const relays = new RelayChoice();
    let published: string | undefined;
    using subscription = await this.#ports.nodes.subscribe({}, signal);
    for (;;) {
      const { relist, nodes, deletedNodeIds, revision } = await subscription.next(signal);
      if (relist) entries.clear();
      if (relist) relays.clear();
      for (const nodeId of deletedNodeIds) {
        entries.delete(nodeId);
        relays.set(nodeId, undefined);
      }
      for (const view of nodes) {
        const { nodeId } = view.record;
        const entry = entryOf(view);
        const isServing = entry !== undefined && isControlPlane(view.record.roles);
        if (isServing) entries.set(nodeId, entry);
        else entries.delete(nodeId);
        relays.set(
          nodeId,
          entry === undefined || isServing ? undefined : { address: entry.address, isAlive: view.isAlive },
        );
      }
      // More batches follow, so some nodes are still missing.
      if (revision === undefined) continue;
      const sorted = [...entries.values()].toSorted((a, b) => (a.nodeId < b.nodeId ? -1 : 1));
      const now = { entries: sorted, relays: relays.choose() };
      const text = JSON.stringify(now);
      if (text === published) continue;
      published = text;
      this.#value.set({ kind: 'known', ...now });
    }
  }
}

/** The entry of a member that has reported its address. */
function entryOf(view: NodeView): ControlPlaneEntry | undefined {
  const { record } = view;
  const reported = nodeStatusOf(view);
  if (record.state !== 'UP' || reported === undefined || reported.address === '') return undefined;
  const { nodeId, name, roles } = record;
  const { address, curatorEndpoint } = reported;
  return { nodeId, name, address, curatorEndpoint, apiServer: roles.includes('KubernetesController') };
}
