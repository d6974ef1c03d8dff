import { encodeFacts, type ClusterFacts, type NodeFacts } from '../../internal/doctor/index.ts';
import { formatEndpoint, PORTS } from '../../internal/endpoint/index.ts';
import { KubeClient } from '../../internal/kube/index.ts';
import { callCurator, currentKubeAccess, readPart, type CuratorClients } from '../cluster/index.ts';
import { judgeFacts } from '../doctor/index.ts';
import { addMissing, asJson, attemptFile, textFile, type Collecting } from './attempt-file.ts';
import { withoutChartValues } from './chart-values.ts';
import { kubernetesFiles, systemPodLogs } from './collect-kubernetes.ts';
import { CONTROL_PLANE_UNITS, NODE_UNITS, nodeDirectory } from './node-units.ts';
import { redactText } from './redact/redact.ts';
import type { SupportFile } from './support-file.ts';

const CALL_MS = 30_000;
const MAX_LOG_BYTES = 16 * 1024 * 1024;

/** What to collect. */
export interface CollectFilesOptions {
  readonly facts: ClusterFacts;
  /** Names of the nodes whose logs and metrics to collect; empty: all. */
  readonly nodes: readonly string[];
  /** Lines of each log. */
  readonly lines: number;
}

/** The files of a support bundle, one after the other. A file that cannot be collected is noted with its error. */
export async function* collectFiles(
  collecting: Collecting,
  options: CollectFilesOptions,
): AsyncGenerator<SupportFile> {
  const { facts } = options;
  yield* factFiles(facts);
  const collector = new Collector(collecting, options);
  if (facts.curators.some(({ answer }) => answer.ok)) {
    yield* collector.file('nodes.json', ({ curator }) => curator.listNodes({}), asJson);
    yield* collector.file('cluster.json', ({ curator }) => curator.getClusterInfo({}), asJson);
    yield* collector.file('joins.json', ({ operatorApi }) => operatorApi.listJoins({}), asJson);
    yield* collector.file(
      'configuration.json',
      ({ curator }) => curator.getConfiguration({}),
      ({ document }) => asJson(withoutChartValues(JSON.parse(Buffer.from(document).toString('utf8')))),
    );
    const { nodes } = options;
    for (const node of facts.records.ok ? facts.records.value.nodes : [])
      if (nodes.length === 0 || nodes.includes(node.name)) yield* collector.node(node);
  } else {
    addMissing(collecting, 'nodes', withoutCurators(facts));
  }
  yield* collector.kubernetes();
}

/** Why nothing can be collected from nodes, and what to do instead. */
function withoutCurators({ records }: ClusterFacts): string {
  const isQuorumLost = !records.ok && records.codes.includes('cluster-quorum-lost');
  const why = isQuorumLost
    ? 'quorum lost (see `cluster help recover`), so curators serve no calls'
    : 'no curator responds';
  return `${why}, and only curators reach the nodes; run \`cluster support bundle --local\` as root on the nodes`;
}

/** The facts of the doctor and its findings. */
export function* factFiles(facts: ClusterFacts): Generator<SupportFile> {
  yield textFile('facts.json', asJson(JSON.parse(new TextDecoder().decode(encodeFacts(facts)))));
  yield textFile('doctor.txt', redactText(judgeFacts(facts, []).text));
}

class Collector {
  readonly #collecting: Collecting;
  readonly #options: CollectFilesOptions;

  constructor(collecting: Collecting, options: CollectFilesOptions) {
    this.#collecting = collecting;
    this.#options = options;
  }

  /** One file from one call of a curator. */
  async *file<T>(
    path: string,
    call: (clients: CuratorClients) => Promise<T>,
    render: (answer: T) => string,
  ): AsyncGenerator<SupportFile> {
    yield* attemptFile(this.#collecting, path, async () =>
      render(await callCurator(this.#collecting.context, call)),
    );
  }

  /** Logs and metrics of one node. */
  async *node({ id, name, isControlPlane }: NodeFacts): AsyncGenerator<SupportFile> {
    const node = id;
    const directory = nodeDirectory(name, id);
    const { lines: backlog } = this.#options;
    const read = (source: LogSource) =>
      this.#readLog({ node, logs: { source, backlog, follow: false, exact: false } });
    yield* attemptFile(this.#collecting, `${directory}/agent.log`, () => read({ case: 'path', value: '' }));
    for (const unit of isControlPlane ? [...NODE_UNITS, ...CONTROL_PLANE_UNITS] : NODE_UNITS)
      yield* attemptFile(this.#collecting, `${directory}/${unit}.log`, () =>
        read({ case: 'units', value: { names: [`${unit}.service`] } }),
      );
    yield* this.file(
      `${directory}/metrics.txt`,
      ({ nodeStreams }) => nodeStreams.getMetrics({ node }, { timeoutMs: CALL_MS }),
      ({ text }) => redactText(text),
    );
  }

  /** The listed kinds of objects, from the first API server that serves. */
  async *kubernetes(): AsyncGenerator<SupportFile> {
    const { context } = this.#collecting;
    const access = await readPart(context, () => currentKubeAccess(context));
    if (!access.ok) return addMissing(this.#collecting, 'kubernetes', access.error);
    const server = this.#serverOr(access.value.server);
    using client = new KubeClient({ ...access.value, server }, context.ports);
    const version = await readPart(context, () => client.getText('/version', context.signal));
    if (!version.ok) return addMissing(this.#collecting, 'kubernetes', version.error);
    yield* kubernetesFiles(this.#collecting, client);
    yield* systemPodLogs(this.#collecting, client, this.#options.lines);
  }

  #serverOr(server: string): string {
    const { apiServers, records } = this.#options.facts;
    const serving = apiServers.find(({ answer }) => answer.ok)?.node;
    const nodes = records.ok ? records.value.nodes : [];
    const address = nodes.find(({ name }) => name === serving)?.address ?? '';
    return address === '' ? server : `https://${formatEndpoint(address, PORTS.apiServer)}`;
  }

  async #readLog(request: Parameters<CuratorClients['nodeStreams']['streamLogs']>[0]): Promise<string> {
    return callCurator(this.#collecting.context, async ({ nodeStreams }) => {
      const chunks: Uint8Array[] = [];
      let sizeBytes = 0;
      for await (const { lines, dropped } of nodeStreams.streamLogs(request, { timeoutMs: CALL_MS })) {
        if (dropped > 0n) chunks.push(new TextEncoder().encode(`… ${dropped} lines dropped\n`));
        sizeBytes += lines.length;
        if (sizeBytes > MAX_LOG_BYTES) break;
        chunks.push(lines);
      }
      return redactText(Buffer.concat(chunks).toString('utf8'));
    });
  }
}

type LogSource =
  | { readonly case: 'path'; readonly value: string }
  | { readonly case: 'units'; readonly value: { readonly names: string[] } };
