import { mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { stringify } from 'yaml';
import { writeImageArchive, type TarEntry } from '../../../internal/bundlebuild/index.ts';
import { createBuildContext } from '../../build-context.ts';
import type { Harness } from '../../machines/harness.ts';
import { eventually } from '../harness/node-shell.ts';
import type { StoryCluster } from '../harness/story-cluster.ts';
import { buildPrometheus } from './prometheus-programs.ts';

const IMAGE = 'cluster.local/prometheus:story';
const NAME = 'prometheus';
const PORT = 9090;
const IMPORT_MS = 300_000;

/** One alert, as Prometheus' API has it. */
export interface ActiveAlert {
  readonly state: 'pending' | 'firing';
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
}

/** One sample of a query. */
export interface Sample {
  readonly metric: Readonly<Record<string, string>>;
  readonly value: readonly [time: number, value: string];
}

/** A real Prometheus in a pod on one machine, with the rules and the scrape configuration of the chart. */
export class PrometheusPod {
  readonly #cluster: StoryCluster;
  readonly #node: string;
  readonly #address: string;

  private constructor(cluster: StoryCluster, node: string, address: string) {
    this.#cluster = cluster;
    this.#node = node;
    this.#address = address;
  }

  /** Builds the program, and starts it with the service account of the chart. @param namespace of the chart */
  static async start(
    bench: Harness,
    cluster: StoryCluster,
    { node, namespace }: { readonly node: string; readonly namespace: string },
  ): Promise<PrometheusPod> {
    await importImage(bench, cluster, node);
    const objects = Buffer.from(JSON.stringify(list(node, namespace))).toString('base64');
    await cluster.sh(node, `echo ${objects} | base64 -d | kubectl apply -f -`);
    const address = await eventually(
      'Prometheus is ready',
      180,
      () =>
        cluster.sh(
          node,
          `kubectl -n ${namespace} get pod ${NAME} -o jsonpath='{.status.podIP} {.status.conditions[?(@.type=="Ready")].status}'`,
        ),
      (text) => text.endsWith(' True'),
    );
    return new PrometheusPod(cluster, node, address.split(' ')[0] ?? '');
  }

  /** The result of a PromQL query. */
  async query(expression: string): Promise<readonly Sample[]> {
    const { result } = await this.#get<{ readonly result: readonly Sample[] }>(
      `query?query=${encodeURIComponent(expression)}`,
    );
    return result;
  }

  async alerts(): Promise<readonly ActiveAlert[]> {
    return (await this.#get<{ readonly alerts: readonly ActiveAlert[] }>('alerts')).alerts;
  }

  /** Asks from the machine of the pod, so that the answer needs no API server. */
  async #get<T>(path: string): Promise<T> {
    const url = `http://${this.#address}:${PORT}/api/v1/${path}`;
    const script = `fetch(${JSON.stringify(url)}).then((r) => r.text()).then(console.log)`;
    const text = await this.#cluster.run(this.#node, '/usr/lib/cluster/node', '-e', script);
    const { status, data } = JSON.parse(text) as { readonly status: string; readonly data: T };
    if (status !== 'success') throw new Error(`Prometheus refused ${path}: ${text}`);
    return data;
  }
}

async function importImage(bench: Harness, cluster: StoryCluster, node: string): Promise<void> {
  const directory = await mkdtemp(join(bench.directory, 'prometheus-'));
  const program = await buildPrometheus('prometheus', directory);
  const context = createBuildContext({ signal: bench.signal, say: () => undefined });
  const { sizeBytes = 0 } = (await context.ports.files.stat(program)) ?? {};
  const content = () => context.ports.streams.readChunks(program, { signal: bench.signal });
  const file: TarEntry = { type: 'file', path: 'prometheus', mode: 0o755, sizeBytes, content };
  const { architecture } = context.machine;
  const image = { reference: IMAGE, architecture, layers: [[file]], entrypoint: '/prometheus' };
  const archive = Buffer.concat(await Array.fromAsync(writeImageArchive(image)));
  const machine = await (await bench.cluster(cluster.name)).node(node);
  await machine.exec(['/opt/cluster/bin/ctr', '--namespace', 'k8s.io', 'images', 'import', '-'], {
    ...{ input: archive, timeoutMs: IMPORT_MS, signal: bench.signal },
  });
  await rm(directory, { recursive: true });
}

function list(node: string, namespace: string): object {
  const metadata = { name: NAME, namespace };
  const config = {
    global: { evaluation_interval: '10s' },
    rule_files: ['/etc/monitoring/rules.yaml'],
    scrape_config_files: ['/etc/monitoring/scrape.yaml'],
  };
  const volumes = [
    { name: 'config', configMap: { name: NAME }, path: '/etc/prometheus' },
    { name: 'monitoring', configMap: { name: 'monitoring' }, path: '/etc/monitoring' },
    { name: 'data', emptyDir: {}, path: '/data' },
  ];
  return {
    apiVersion: 'v1',
    kind: 'List',
    items: [
      { apiVersion: 'v1', kind: 'ConfigMap', metadata, data: { 'prometheus.yaml': stringify(config) } },
      {
        apiVersion: 'v1',
        kind: 'Pod',
        metadata,
        spec: {
          serviceAccountName: 'monitoring',
          nodeName: node,
          tolerations: [{ operator: 'Exists' }],
          containers: [
            {
              name: NAME,
              image: IMAGE,
              imagePullPolicy: 'Never',
              args: ['--config.file=/etc/prometheus/prometheus.yaml', '--storage.tsdb.path=/data'],
              readinessProbe: { httpGet: { path: '/-/ready', port: PORT }, periodSeconds: 2 },
              volumeMounts: volumes.map(({ name, path: mountPath }) => ({ name, mountPath })),
            },
          ],
          volumes: volumes.map(({ path: _path, ...volume }) => volume),
        },
      },
    ],
  };
}
