import { mapConcurrently } from '../../../internal/cleanup/index.ts';
import { fingerprintOfKey, pubKeyDerOf } from '../../../internal/pki/index.ts';
import { printable } from '../../../internal/printable/index.ts';
import type { AuditRecord } from '../../../internal/records/index.ts';
import type { Node } from '../../../joinservice/curatorproto/gen/curator_pb.js';
import type { CommandContext } from '../../app/command.ts';
import {
  callCurator,
  etcdFrom,
  fetchKeysView,
  kubernetesEtcdOf,
  nodeViewFrom,
  readCaller,
  readKubernetes,
  readPart,
  saveKnownCurators,
  type Caller,
  type CuratorClients,
  type KubernetesPart,
} from '../../cluster/index.ts';
import { joinViewFrom, runnableViews, type JoinView } from '../../nodes/index.ts';
import { HistoryRecorder } from '../model/history.ts';
import type { ClusterReading, ObservedNode, Observations, UsageAnswer } from '../model/observations.ts';
import { isRefusal, Source } from '../model/source.ts';
import { RecentDecisions } from './decisions.ts';
import { UsageReader } from './usage.ts';

/** The cluster itself changes slowly; changes of nodes come by their watch at once. */
const CLUSTER_MS = 2_000;
const KUBERNETES_MS = 15_000;
const METRICS_MS = 15_000;
const FIRST_METRICS_MS = 500;
const SECOND_METRICS_MS = 5_000;
/** A watch that has failed begins again after this. */
const RETRY_MS = 2_000;
/** One node that does not answer must not hold up the metrics of the others. */
const PAGE_MS = 10_000;
/** How many nodes are asked for their metrics at the same time. */
const AT_ONCE = 8;

/** A member as it was sent last; its view is made once for each change, not for each drawing. */
interface KnownNode {
  readonly node: Node;
  readonly view: ObservedNode;
}

/**
 * Reads everything that the dashboard shows, each source by itself, with the calls and credentials of the other commands: the
 * cluster decides for each call what the caller may see.
 */
export class Collector {
  readonly #context: CommandContext;
  readonly #onChange: () => void;
  readonly #caller: Caller;
  readonly #cluster = new Source<ClusterReading>();
  readonly #nodes = new Source<readonly ObservedNode[]>();
  readonly #joins = new Source<readonly JoinView[]>();
  readonly #decisions = new Source<readonly AuditRecord[]>();
  readonly #usage = new Source<ReadonlyMap<string, UsageAnswer>>();
  readonly #kubernetes = new Source<KubernetesPart>();
  readonly #known = new Map<string, KnownNode>();
  readonly #history = new HistoryRecorder();
  readonly #recent = new RecentDecisions();
  readonly #usageReader = new UsageReader();
  #hasKubeconfig = true;

  private constructor(context: CommandContext, caller: Caller, onChange: () => void) {
    this.#context = context;
    this.#caller = caller;
    this.#onChange = onChange;
  }

  /**
   * @param context its signal ends `run()`
   * @param onChange called after each change of what the sources have told
   * @throws ClusterError `cluster-not-initialized`, `cluster-identity-not-granted`
   */
  static async open(context: CommandContext, onChange: () => void): Promise<Collector> {
    return new Collector(context, await readCaller(context), onChange);
  }

  /** What the sources have told until now. */
  get observations(): Observations {
    return {
      clusterId: this.#caller.clusterId,
      cluster: this.#cluster.reading,
      nodes: this.#nodes.reading,
      kubernetesEtcd: this.#kubernetesEtcd(),
      joins: this.#joins.reading,
      decisions: this.#decisions.reading,
      usage: this.#usage.reading,
      kubernetes: this.#hasKubeconfig ? this.#kubernetes.reading : undefined,
      history: this.#history,
    };
  }

  /** Reads until the signal of the context fires. */
  async run(): Promise<never> {
    return Promise.race([
      this.#repeat(CLUSTER_MS, () => this.#readCluster()),
      this.#repeat(RETRY_MS, () => this.#watchNodes()),
      this.#repeat(METRICS_MS, () => this.#readUsage()),
      this.#repeat(KUBERNETES_MS, () => this.#readKubernetes()),
    ]);
  }

  /** @param read may return after how many ms it wants to be called again */
  async #repeat(everyMs: number, read: () => Promise<number | void>): Promise<never> {
    for (;;) {
      const nextMs = (await read()) ?? everyMs;
      this.#onChange();
      await this.#context.ports.clock.sleep(nextMs, this.#context.signal);
    }
  }

  /** Stores what a source tells, or why it tells nothing. */
  async #update<T>(source: Source<T>, read: () => Promise<T>): Promise<void> {
    const part = await readPart(this.#context, read);
    const nowMs = this.#context.ports.clock.nowMs();
    if (part.ok) source.set(part.value, nowMs);
    else source.fail(part, nowMs);
  }

  async #readCluster(): Promise<void> {
    await Promise.all([
      this.#update(this.#cluster, () => this.#call((clients) => this.#clusterFrom(clients))),
      this.#update(this.#joins, () =>
        this.#call(async ({ operatorApi }) => (await operatorApi.listJoins({})).joins.map(joinViewFrom)),
      ),
      this.#update(this.#decisions, () => this.#call((clients) => this.#recent.read(clients))),
    ]);
  }

  async #clusterFrom(clients: CuratorClients): Promise<ClusterReading> {
    const [info, keys, { operators }] = await Promise.all([
      clients.curator.getClusterInfo({ probeMembers: true }),
      fetchKeysView(clients),
      clients.operatorApi.listOperators({}),
    ]);
    await saveKnownCurators(this.#context.ports.files, this.#caller.curatorsPath, info);
    const fingerprint = fingerprintOfKey(pubKeyDerOf(this.#caller.keyPem));
    const own = operators.find((each) => each.fingerprint === fingerprint);
    const pending = (this.#joins.reading.value ?? []).filter(({ state }) => state === 'pending');
    return {
      name: printable(info.clusterName),
      createdMs: Number(info.createdMs),
      etcd: etcdFrom(info.etcd),
      pendingJoins: pending.length,
      keys,
      ...{ role: printable(own?.role ?? ''), caller: printable(own?.name ?? '') },
    };
  }

  /** Follows the nodes until the watch ends, which is always with an error. */
  async #watchNodes(): Promise<void> {
    await this.#update(this.#nodes, () =>
      this.#call(async ({ curator }) => {
        let isComplete = false;
        for await (const { relist, nodes, deletedNodeIds, caughtUp } of curator.watchNodes({})) {
          if (relist) this.#known.clear();
          isComplete = caughtUp || (isComplete && !relist);
          const nowMs = this.#context.ports.clock.nowMs();
          for (const node of nodes) this.#known.set(node.nodeId, { node, view: observedNode(node, nowMs) });
          for (const id of deletedNodeIds) this.#known.delete(id);
          if (!isComplete) continue; // a list that is not complete would look as if nodes were gone
          this.#setNodes(nowMs);
          this.#onChange();
        }
        throw new Error('the curator ended the list of nodes');
      }),
    );
    if (this.#nodes.reading.failure?.isRefused !== true) return;
    this.#known.clear();
    this.#history.forget();
  }

  #setNodes(nowMs: number): void {
    const views = [...this.#known.values()].map(({ view }) => view);
    this.#nodes.set(
      views.toSorted((a, b) => a.name.localeCompare(b.name, 'en', { numeric: true })),
      nowMs,
    );
    this.#history.addHealth(views, nowMs);
  }

  #kubernetesEtcd(): Observations['kubernetesEtcd'] {
    const etcd = kubernetesEtcdOf([...this.#known.values()].map(({ node }) => node));
    return etcd && etcdFrom(etcd);
  }

  async #readUsage(): Promise<number | void> {
    const nodes = this.#nodes.reading.value;
    if (nodes === undefined) return FIRST_METRICS_MS;
    const isFirst = this.#usage.reading.readMs === undefined;
    const wanted = nodes.filter(({ state, health }) => state === 'up' && health === 'healthy');
    this.#usageReader.keepOnly(new Set(wanted.map(({ name }) => name)));
    await this.#update(this.#usage, () =>
      this.#call(async (clients) => {
        const answers = await mapConcurrently(
          wanted,
          AT_ONCE,
          async ({ name }) => [name, await this.#usageOf(clients, name)] as const,
        );
        return new Map(answers);
      }),
    );
    // Shares need two readings.
    return isFirst ? SECOND_METRICS_MS : undefined;
  }

  async #usageOf({ nodeStreams }: CuratorClients, node: string): Promise<UsageAnswer> {
    const asked = nodeStreams.getMetrics({ node }, { timeoutMs: PAGE_MS });
    const part = await readPart(this.#context, () => asked);
    if (!part.ok && isRefusal(part)) await asked; // then every node is refused: the error is that of the source
    if (!part.ok) return { ok: false, error: printable(part.error) };
    const value = this.#usageReader.read(node, part.value.text);
    this.#history.addLatencies(node, value, this.#context.ports.clock.nowMs());
    return { ok: true, value };
  }

  async #readKubernetes(): Promise<void> {
    const part = await readPart(this.#context, () => readKubernetes(this.#context));
    const nowMs = this.#context.ports.clock.nowMs();
    if (part.ok) this.#kubernetes.set(part.value, nowMs);
    else this.#kubernetes.fail(part, nowMs);
    // A caller who is not an owner may have no kubeconfig.
    this.#hasKubeconfig = part.ok || !part.codes.includes('cluster-no-kubeconfig');
  }

  #call<T>(run: (clients: CuratorClients) => Promise<T>): Promise<T> {
    return callCurator(this.#context, run);
  }
}

function observedNode(node: Node, nowMs: number): ObservedNode {
  return { ...nodeViewFrom(node), runnables: runnableViews(node.status?.runnables ?? [], nowMs) };
}
