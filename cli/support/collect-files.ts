import { encodeFacts, type ClusterFacts, type NodeFacts } from '../../internal/doctor/index.ts';
import { formatEndpoint, PORTS } from '../../internal/endpoint/index.ts';
import { KubeClient } from '../../internal/kube/index.ts';
import { printable } from '../../internal/printable/index.ts';
import type { CommandContext } from '../app/command.ts';
import { callCurator, currentKubeAccess, readPart, type CuratorClients } from '../cluster/index.ts';
import { judgeFacts } from '../doctor/index.ts';
import { LISTED_KINDS, pickFields } from './kubernetes-files.ts';
import { redactJson, redactText } from './redact.ts';
import type { SupportFile, SupportManifest } from './support-file.ts';

const CALL_MS = 30_000;
const MAX_LOG_BYTES = 16 * 1024 * 1024;
const NODE_UNITS = [
  'bootstrapper',
  'cluster-containerd',
  'cluster-apilb',
  'cluster-relay',
  'cluster-exporter',
  'kubelet',
];
const CONTROL_PLANE_UNITS = [
  'cluster-etcd-state',
  'cluster-etcd-kubernetes',
  'cluster-joinservice',
  'cluster-signer',
];
/** Values of charts often contain passwords. */
const CHART_VALUES = /^values/i;

/** What to collect, and where to list what could not be collected. */
export interface CollectFilesOptions {
  readonly facts: ClusterFacts;
  /** Names of the nodes whose logs and metrics to collect; empty: all. */
  readonly nodes: readonly string[];
  /** Lines of each log. */
  readonly lines: number;
  /** Filled while files are collected. */
  readonly missing: SupportManifest['missing'];
  /** Called before each file. */
  readonly onFile: (path: string) => void;
}

/** The files of a support bundle, one after the other. A file that cannot be collected is noted with its error. */
export async function* collectFiles(
  context: CommandContext,
  options: CollectFilesOptions,
): AsyncGenerator<SupportFile> {
  const { facts } = options;
  yield json('facts.json', JSON.parse(new TextDecoder().decode(encodeFacts(facts))));
  yield file('doctor.txt', redactText(judgeFacts(facts, []).text));
  const collector = new Collector(context, options);
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
    options.missing.push({ path: 'nodes', error: 'no curator responds, and only curators reach the nodes' });
  }
  yield* collector.kubernetes();
}

class Collector {
  readonly #context: CommandContext;
  readonly #options: CollectFilesOptions;

  constructor(context: CommandContext, options: CollectFilesOptions) {
    this.#context = context;
    this.#options = options;
  }

  /** One file from one call of a curator. */
  async *file<T>(
    path: string,
    call: (clients: CuratorClients) => Promise<T>,
    render: (answer: T) => string,
  ): AsyncGenerator<SupportFile> {
    yield* this.#attempt(path, async () => render(await callCurator(this.#context, call)));
  }

  /** Logs and metrics of one node. */
  async *node({ id, name, isControlPlane }: NodeFacts): AsyncGenerator<SupportFile> {
    const node = id;
    const directory = `nodes/${/^[a-z0-9][a-z0-9-]{0,62}$/.test(name) ? name : id}`;
    const { lines: backlog } = this.#options;
    const read = (source: LogSource) =>
      this.#readLog({ node, logs: { source, backlog, follow: false, exact: false } });
    yield* this.#attempt(`${directory}/agent.log`, () => read({ case: 'path', value: '' }));
    for (const unit of isControlPlane ? [...NODE_UNITS, ...CONTROL_PLANE_UNITS] : NODE_UNITS)
      yield* this.#attempt(`${directory}/${unit}.log`, () =>
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
    const { signal, ports } = this.#context;
    const access = await readPart(this.#context, () => currentKubeAccess(this.#context));
    if (!access.ok) {
      this.#options.missing.push({ path: 'kubernetes', error: printable(access.error) });
      return;
    }
    using client = new KubeClient({ ...access.value, server: this.#serverOr(access.value.server) }, ports);
    const isReachable = await readPart(this.#context, () => client.getText('/version', signal));
    if (!isReachable.ok) {
      this.#options.missing.push({ path: 'kubernetes', error: printable(isReachable.error) });
      return;
    }
    for (const { name, path, fields } of LISTED_KINDS)
      yield* this.#attempt(`kubernetes/${name}.json`, async () => {
        const list = (await client.getJson(path, signal)) as { readonly items?: unknown };
        return asJson(pickFields(list.items, fields) ?? []);
      });
  }

  #serverOr(server: string): string {
    const { apiServers, records } = this.#options.facts;
    const serving = apiServers.find(({ answer }) => answer.ok)?.node;
    const nodes = records.ok ? records.value.nodes : [];
    const address = nodes.find(({ name }) => name === serving)?.address ?? '';
    return address === '' ? server : `https://${formatEndpoint(address, PORTS.apiServer)}`;
  }

  async #readLog(request: Parameters<CuratorClients['nodeStreams']['streamLogs']>[0]): Promise<string> {
    return callCurator(this.#context, async ({ nodeStreams }) => {
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

  async *#attempt(path: string, collect: () => Promise<string>): AsyncGenerator<SupportFile> {
    this.#options.onFile(path);
    const collected = await readPart(this.#context, collect);
    if (collected.ok) yield file(path, collected.value);
    else this.#options.missing.push({ path, error: redactText(printable(collected.error)) });
  }
}

type LogSource =
  | { readonly case: 'path'; readonly value: string }
  | { readonly case: 'units'; readonly value: { readonly names: string[] } };

function withoutChartValues(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutChartValues);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .filter(([key]) => !CHART_VALUES.test(key))
      .map(([key, each]) => [key, withoutChartValues(each)]),
  );
}

function asJson(value: unknown): string {
  return `${JSON.stringify(redactJson(value), null, 1)}\n`;
}

function json(path: string, value: unknown): SupportFile {
  return file(path, asJson(value));
}

function file(path: string, text: string): SupportFile {
  return { path, content: new TextEncoder().encode(text) };
}
