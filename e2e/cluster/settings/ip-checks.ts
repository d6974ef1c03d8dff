import { ipv6Groups, urlHost } from '../../../internal/endpoint/index.ts';
import type { Harness } from '../../machines/harness.ts';
import { eventually } from '../harness/node-shell.ts';
import type { StoryCluster } from '../harness/story-cluster.ts';

/** A pod of the sample chart. */
export interface HelloPod {
  readonly node: string;
  readonly addresses: readonly string[];
}

/** The pods of the sample chart, with their addresses of each family. */
export async function helloPods(cluster: StoryCluster): Promise<readonly HelloPod[]> {
  const shown = await cluster.run(
    ...['n1', 'kubectl', '-n', 'default', 'get', 'pods', '-l', 'app.kubernetes.io/name=hello'],
    ...['-o', 'jsonpath={range .items[*]}{.spec.nodeName} {.status.podIPs[*].ip}{"\\n"}{end}'],
  );
  const found = shown.split('\n').map((line) => line.split(' '));
  return found.map(([node = '', ...addresses]) => ({ node, addresses }));
}

/** A field of a node, by its JSONPath. */
export function nodeField(cluster: StoryCluster, name: string, path: string): Promise<string> {
  return cluster.run('n1', 'kubectl', 'get', 'node', name, '-o', `jsonpath=${path}`);
}

/** The addresses of a node, the one at which others reach it first. */
export function nodeAddresses(cluster: StoryCluster, name: string): Promise<string> {
  return nodeField(cluster, name, '{.status.addresses[?(@.type=="InternalIP")].address}');
}

/** Waits until a machine gets the status 200 from a web server. */
export async function answers(
  cluster: StoryCluster,
  machine: string,
  address: string,
  port: number,
): Promise<void> {
  const url = `http://${urlHost(address)}:${port}/`;
  const script = `fetch('${url}').then((response) => console.log(response.status))`;
  await eventually(
    `${machine} reaches ${url}`,
    60,
    () => cluster.try(machine, '/usr/lib/cluster/node', '-e', script),
    ({ code, stdout }) => code === 0 && stdout.trim() === '200',
  );
}

/** One result of `cluster doctor`. */
interface Finding {
  readonly code: string;
  readonly grade: string;
  readonly cause: string;
  readonly subject: string;
  readonly figure: string;
}

/** All results of `cluster doctor`, the good ones too. */
export async function diagnose(bench: Harness, cluster: StoryCluster): Promise<readonly Finding[]> {
  const { stdout } = await bench.cli(
    ...['--workspace', await cluster.workspace(), 'doctor', '--output', 'json'],
  );
  const last = JSON.parse(stdout.trim().split('\n').at(-1) ?? '{}') as {
    readonly data?: { readonly findings: readonly Finding[] };
  };
  if (last.data === undefined) throw new Error(`doctor has no result: ${stdout}`);
  return last.data.findings;
}

/** As openssl prints an IPv6 address: "2001:2:0:9000:0:0:0:1". */
export function expanded(address: string): string {
  return ipv6Groups(address).join(':').toUpperCase();
}
