import { createConnection } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { setTimeout as delay } from 'node:timers/promises';
import { parse } from 'yaml';
import { DEFAULT_KUBERNETES_VERSION, imageReferences, versionsFor } from '../../../internal/bundle/index.ts';
import type { Harness } from '../../machines/harness.ts';

/** An image that is on every node and needs no network. Its program waits for a signal. */
export const PAUSE_IMAGE = imageReferences(versionsFor(DEFAULT_KUBERNETES_VERSION)).pause;

/** A shell on one machine of a local cluster, through the CLI as an operator would. */
export class NodeShell {
  readonly #bench: Harness;
  readonly #exec: readonly string[];

  constructor(bench: Harness, cluster: string, node = 'n1') {
    this.#bench = bench;
    this.#exec = ['mini', 'exec', '--name', cluster, node, '--'];
  }

  /** stdout of a command that must succeed. */
  async run(...argv: readonly string[]): Promise<string> {
    return (await this.#bench.must(...this.#exec, ...argv)).trim();
  }

  async exitCode(...argv: readonly string[]): Promise<number> {
    return (await this.#bench.cli(...this.#exec, ...argv)).code;
  }

  kubectl(...args: readonly string[]): Promise<string> {
    return this.run('kubectl', ...args);
  }

  /** Runs etcdctl with the credentials of one etcd client. */
  etcdctl(
    user: EtcdClientName,
    ...args: readonly string[]
  ): Promise<{ code: number; stdout: string; stderr: string }> {
    return this.#bench.cli(...this.#exec, ...etcdctlArgv(user), ...args);
  }

  /**
   * Connects to an etcd over TLS with this client's certificate. Returns the HTTP status line or the error
   * code. The first request waits, because data on a refused connection would hide the TLS alert behind a TCP
   * reset.
   */
  tlsAnswer(client: EtcdClientName, at: EtcdClientName): Promise<string> {
    const directory = credentialsOf(client);
    const script = `const s = require('node:tls').connect({ host: '127.0.0.1', port: ${portOf(at)}, rejectUnauthorized: false,
      cert: require('node:fs').readFileSync('${directory}/client.crt'), key: require('node:fs').readFileSync('${directory}/client.key') });
      const end = (text) => { console.log(text); process.exit(); };
      s.once('error', (error) => end(error.code)).once('data', (data) => end(String(data).split('\\r')[0]));
      setTimeout(() => s.write('GET /version HTTP/1.1\\r\\nhost: etcd\\r\\n\\r\\n'), 2000);
      setTimeout(() => end('silence'), 15000);`;
    return this.run('/usr/lib/cluster/node', '-e', script);
  }
}

/**
 * Lists the running services of this project on a machine: a line each with the main process and the number
 * of starts.
 */
export const LIST_RUNNING_UNITS = `systemctl list-units --type service --state running --plain --no-legend 'cluster-*' kubelet.service bootstrapper.service | awk '{print $1}' | sort | xargs -n1 systemctl show --property Id,MainPID,NRestarts | paste -sd ' '`;

/** A pod that prefers one machine; its controller recreates it elsewhere after an eviction. */
export function podPinnedTo(node: string): string {
  return JSON.stringify({
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    metadata: { name: 'visitor' },
    spec: {
      selector: { matchLabels: { app: 'visitor' } },
      template: {
        metadata: { labels: { app: 'visitor' } },
        spec: {
          nodeSelector: { 'kubernetes.io/hostname': node },
          terminationGracePeriodSeconds: 1,
          containers: [{ name: 'sleep', image: PAUSE_IMAGE }],
        },
      },
    },
  });
}

/** Prints "TAINT/UNSCHEDULABLE" of a node; each part is empty if it is not set. */
export const SCHEDULING = `jsonpath={.spec.taints[?(@.key=="node-role.kubernetes.io/control-plane")].effect}/{.spec.unschedulable}`;

/** Clients of the two etcd clusters on a control plane; the first three are clients of the state etcd. */
export type EtcdClientName = 'root' | 'curator' | 'signer' | 'apiserver' | 'kubernetes-root';

function isOfKubernetes(user: EtcdClientName): boolean {
  return user === 'apiserver' || user === 'kubernetes-root';
}

function credentialsOf(user: EtcdClientName): string {
  const etcd = isOfKubernetes(user) ? 'kubernetes' : 'state';
  return `/var/lib/cluster/consensus/${etcd}/users/${user.replace('kubernetes-', '')}`;
}

function portOf(user: EtcdClientName): number {
  return isOfKubernetes(user) ? 2379 : 2382;
}

/** The first arguments of an etcdctl command on a control plane: program, endpoint and credentials of this client. */
export function etcdctlArgv(user: EtcdClientName): readonly [string, ...string[]] {
  const directory = credentialsOf(user);
  const identity = [
    '--cacert',
    `${directory}/ca.crt`,
    '--cert',
    `${directory}/client.crt`,
    '--key',
    `${directory}/client.key`,
  ];
  return ['/opt/cluster/bin/etcdctl', '--endpoints', `https://127.0.0.1:${portOf(user)}`, ...identity];
}

/** The configuration file that the kubelet of a machine reads at its start. */
export async function kubeletConfiguration(
  node: NodeShell,
): Promise<{ readonly rotateCertificates?: unknown; readonly serverTLSBootstrap?: unknown }> {
  const text = await node.run('cat', '/var/lib/kubelet/config.yaml');
  return parse(text) as { readonly rotateCertificates?: unknown; readonly serverTLSBootstrap?: unknown };
}

/** "open", or the error code of a TCP connection. */
export function probePort(host: string, port: number): Promise<string> {
  return new Promise((resolve) => {
    const socket = createConnection({ host, port, timeout: 3000 }, () => {
      socket.destroy();
      resolve('open');
    });
    socket.once('timeout', () => socket.destroy(new Error('timeout')));
    socket.once('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message));
  });
}

/** The names in the certificate that a TLS server shows. */
export function certificateNames(host: string, port: number): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connectTls({ host, port, rejectUnauthorized: false }, () => {
      resolve(socket.getPeerX509Certificate()?.subjectAltName ?? '');
      socket.destroy();
    });
    socket.once('error', reject);
  });
}

/** Polls until the answer satisfies the condition. After the deadline it throws an error with the last answer. */
export async function eventually<T>(
  what: string,
  withinSeconds: number,
  ask: () => Promise<T>,
  fine: (answer: T) => boolean,
): Promise<T> {
  const deadline = Date.now() + withinSeconds * 1000;
  let last: unknown;
  while (Date.now() < deadline) {
    try {
      const answer = await ask();
      if (fine(answer)) return answer;
      last = answer;
    } catch (error) {
      last = error;
    }
    await delay(500);
  }
  throw new Error(
    `${what} did not come true within ${withinSeconds} s; last: ${last instanceof Error ? last.message : JSON.stringify(last)}`,
  );
}

/**
 * Waits until the pods of CoreDNS are distributed over two nodes: they restart once, soon after the second node is ready.
 * A story that compares processes or pods must not begin before that.
 * @param kubectl runs kubectl on a control plane
 */
export async function dnsIsDistributed(
  kubectl: (...args: readonly string[]) => Promise<string>,
): Promise<void> {
  const ofDns = ['--namespace', 'kube-system', '--selector', 'k8s-app=kube-dns', '--output'];
  const counts =
    '{range .items[*]}{.status.replicas} {.status.updatedReplicas} {.status.availableReplicas}{end}';
  const nodes = '{range .items[*]}{.spec.nodeName}{"\\n"}{end}';
  await eventually(
    'the only pods of CoreDNS are one on each of two nodes',
    120,
    async () => ({
      replicas: await kubectl('get', 'deployments', ...ofDns, `jsonpath=${counts}`),
      nodes: (await kubectl('get', 'pods', ...ofDns, `jsonpath=${nodes}`)).trim().split('\n'),
    }),
    (dns) => dns.replicas === '2 2 2' && dns.nodes.length === 2 && new Set(dns.nodes).size === 2,
  );
}

/** Starts a machine that waits for its init, and creates the workspace of its owner. */
export async function machineWithoutCluster(bench: Harness, name: string, ...flags: readonly string[]) {
  await bench.must('mini', 'up', '--nodes-only', '--name', name, ...flags);
  const cluster = await bench.cluster(name);
  const machine = await cluster.node('n1');
  const node = new NodeShell(bench, name);
  const fingerprint = await eventually(
    'the machine shows its fingerprint',
    30,
    () => node.run('cat', '/var/lib/cluster/machine/fingerprint'),
    (text) => text.startsWith('sha256:'),
  );
  return { address: machine.address, fingerprint, workspace: cluster.paths.workspace, node };
}
