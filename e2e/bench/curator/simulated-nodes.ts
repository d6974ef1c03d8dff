import { performance } from 'node:perf_hooks';
import { NodeHealth, type WatchNodesResponse } from '../../../joinservice/curatorproto/gen/curator_pb.js';
import type { CuratorCluster } from './curator-cluster.ts';
import type { SimulatedNode } from './simulated-node.ts';

/** Nodes that connect at the same time. */
const AT_ONCE = 50;

/** Thousands of simulated nodes in this process, and counters of what they received. */
export class SimulatedNodes implements Disposable {
  readonly nodes: SimulatedNode[] = [];
  readonly ends: string[] = [];
  heartbeats = 0;
  directories = 0;
  /** The longest that a heartbeat has waited for its answer. */
  slowestHeartbeatMs = 0;
  /** How often the curator reported a healthy node as late. */
  late = 0;
  readonly #roles = new Map<string, (atMs: number) => void>();
  #isSilent = false;

  async add(cluster: CuratorCluster, count: number): Promise<void> {
    const added = [...(await cluster.addNodes(count))];
    const connecting = async (): Promise<void> => {
      for (let node = added.pop(); node !== undefined; node = added.pop()) {
        this.nodes.push(node);
        await this.#start(node, cluster.port);
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, connecting));
  }

  /** Resolves with the time (`performance.now()`) at which the node learned that it has no role any more. */
  async told(nodeId: string): Promise<number> {
    const { promise, resolve } = Promise.withResolvers<number>();
    this.#roles.set(nodeId, resolve);
    return promise.finally(() => this.#roles.delete(nodeId));
  }

  /**
   * Makes all nodes omit their heartbeats until the returned object is disposed. If that happens within the
   * heartbeat interval, each node omits one heartbeat at most.
   */
  silence(): Disposable {
    this.#isSilent = true;
    return { [Symbol.dispose]: () => void (this.#isSilent = false) };
  }

  [Symbol.dispose](): void {
    for (const node of this.nodes) node[Symbol.dispose]();
  }

  async #start(node: SimulatedNode, port: number): Promise<void> {
    const { nodeId } = node;
    let health = NodeHealth.UNKNOWN;
    const onSelf = ({ nodes: [self] }: WatchNodesResponse): void => {
      if (self === undefined) return;
      if (self.roles.length === 0) this.#roles.get(nodeId)?.(performance.now());
      // A node is neither healthy nor late before its first heartbeat.
      if (health === NodeHealth.HEALTHY && self.health === NodeHealth.TIMEOUT) this.late++;
      health = self.health;
    };
    await node.start(port, {
      onSelf,
      onDirectory: () => void this.directories++,
      maySendHeartbeat: () => !this.#isSilent,
      onHeartbeat: (waitedMs) => {
        this.heartbeats++;
        this.slowestHeartbeatMs = Math.max(this.slowestHeartbeatMs, waitedMs);
      },
      onEnd: (why) => void this.ends.push(why),
    });
  }
}
