import assert from 'node:assert/strict';
import { test } from 'node:test';
import { reportRefused } from '../../attack-report.ts';
import { createHarness, type Harness, type CliResult } from '../../machines/harness.ts';
import { StoryCluster } from '../harness/story-cluster.ts';
import { eventually, PAUSE_IMAGE } from '../harness/node-shell.ts';
import {
  CODES,
  FORBIDDEN,
  POD_ATTEMPTS,
  podOf,
  RBAC_ATTEMPTS,
  TENANT,
  type ApiAttempt,
} from './tenant-attempts.ts';

const NAME = 'tenant';
const NODE = 'n1';
const KUBECONFIG = '/run/tenant.conf';
const METADATA = '169.254.169.254';
const WIRE_SERVER = '168.63.129.16';
/** Ports of the node that a pod can reach by design. TLS or the service itself refuses the pod. */
const GUARDED = [2379, 2380, 2382, 2383, 6443, 9090, 9091, 10250] as const;
/** kube-proxy tells anybody whether the service rules of this node are current. */
const PUBLIC = 10256;

/** Connects to each "host port", and prints "open" or the error code. */
const CONNECT = `
for (const place of process.argv.slice(1)) {
  const [host, port] = place.split(' ');
  const socket = require('node:net').connect({ host, port, timeout: 4000 });
  const say = (what) => { console.log(place + ' ' + what); socket.removeAllListeners(); socket.on('error', () => {}); socket.destroy(); };
  socket.on('connect', () => say('open')).on('timeout', () => say('ETIMEDOUT')).on('error', (error) => say(error.code));
}`;
/** Sends a request over TLS without a client certificate, and prints the status or the error code. */
const ASK = `
const [host, port, path, token] = process.argv.slice(1);
const headers = token ? { authorization: 'Bearer ' + token } : {};
require('node:https').get({ host, port, path, headers, rejectUnauthorized: false, timeout: 4000 }, (answer) => {
  console.log(answer.statusCode); process.exit();
}).on('timeout', () => { console.log('ETIMEDOUT'); process.exit(); }).on('error', (error) => console.log(error.code));`;
/** A metadata service on the machine itself, as cloud agents provide it. */
const SERVE_METADATA = `require('node:http').createServer((q, a) => a.end('secret')).listen(80, '${METADATA}', () => console.log('up'))`;

await test('a tenant with the role edit in a namespace gets no access to the node', async (story) => {
  await using bench = await createHarness();
  await bench.must('mini', 'up', '--name', NAME);
  const cluster = new StoryCluster(bench, NAME);
  const address = await cluster.address(NODE);
  const token = await makeTenant(cluster);
  const attempted = (name: string, by: string, code: string): void => reportRefused(story, name, by, code);

  await story.test(
    'the API server refuses every pod with access to the node, and every attempt to bypass this refusal',
    async () => {
      for (const attempt of [...POD_ATTEMPTS, ...RBAC_ATTEMPTS]) {
        const { code, stderr } = await asTenant(bench, attempt);
        assert.notEqual(code, 0, `${attempt.name} was allowed`);
        assert.match(stderr, attempt.want, attempt.name);
        attempted(attempt.name, attempt.by, CODES[attempt.by]);
      }
      assert.equal(await kubectl(cluster, '-n', TENANT, 'get', 'pods', '-o', 'name'), '');
    },
  );

  await story.test('a controller cannot create a pod with access to the node either', async () => {
    const template = podOf('x', { hostNetwork: true }) as { spec: object };
    const labels = { app: 'x' };
    const object = {
      apiVersion: 'apps/v1',
      kind: 'ReplicaSet',
      metadata: { name: 'x', namespace: TENANT },
      spec: { selector: { matchLabels: labels }, template: { metadata: { labels }, spec: template.spec } },
    };
    const made = await asTenant(bench, {
      ...{ name: '', by: 'Pod Security', want: /./, object },
      args: ['create', '-f', '-'],
    });
    assert.equal(made.code, 0, made.stderr);
    assert.match(made.stderr, /Warning: would violate PodSecurity/);
    const why = await eventually(
      'the controller is refused',
      30,
      () => kubectl(cluster, '-n', TENANT, 'get', 'events', '-o', 'jsonpath={.items[*].message}'),
      (text) => text.includes('violates PodSecurity'),
    );
    assert.ok(why.includes('host namespaces (hostNetwork=true)'));
    attempted('have a controller make it', 'Pod Security', CODES['Pod Security']);
    await kubectl(cluster, '-n', TENANT, 'delete', 'replicaset', 'x');
  });

  await story.test('an ordinary pod starts and sees no device of the node', async () => {
    await asTenant(bench, {
      ...{ name: '', by: 'RBAC', want: /./, object: podOf('app') },
      args: ['create', '-f', '-'],
    });
    await kubectl(cluster, '-n', TENANT, 'wait', '--for=condition=Ready', 'pod/app', '--timeout=60s');
    const devices = await cluster.sh(NODE, `ls /proc/${await pidOfPod(cluster)}/root/dev`);
    assert.ok(devices.split('\n').includes('null'), devices);
    assert.ok(!/tpm|sev|tdx|kvm|mem|sd[a-z]|vd[a-z]/.test(devices), devices);
    const debug = ['debug', 'app', `--image=${PAUSE_IMAGE}`, '--profile=sysadmin', '--target=main'];
    const { code, stderr } = await asTenant(bench, {
      ...{ name: '', by: 'RBAC', want: FORBIDDEN },
      args: debug,
    });
    assert.notEqual(code, 0);
    assert.match(stderr, FORBIDDEN);
    attempted('add a privileged container to a pod that runs', 'RBAC', CODES.RBAC);
    attempted('find a TPM in /dev', 'the container runtime', 'ENOENT');
  });

  await story.test(
    'a pod runs with the seccomp profile of the runtime and a limit of processes',
    async () => {
      const uid = '$(kubectl -n tenant get pod app -o "jsonpath={.metadata.uid}" | tr - _)'.replace(
        'tenant',
        TENANT,
      );
      // 0: no profile, 2: a filter. Also programs of the node have a filter if the host of the tests runs in a container.
      const filters = async (pid: string): Promise<number> =>
        Number(await cluster.sh(NODE, `sed -n 's/^Seccomp_filters:[[:space:]]*//p' /proc/${pid}/status`));
      const pids = await cluster.sh(
        NODE,
        `uid=${uid}; for pid in $(pgrep -x pause); do if grep -q "$uid" /proc/$pid/cgroup; then echo $pid; fi; done`,
      );
      // The sandbox and the container.
      assert.equal(pids.split('\n').length, 2, pids);
      for (const pid of pids.split('\n')) {
        assert.equal(await cluster.sh(NODE, `sed -n 's/^Seccomp:[[:space:]]*//p' /proc/${pid}/status`), '2');
        assert.ok((await filters(pid)) > (await filters('1')), `process ${pid} has no filter of its own`);
      }
      const limit = `uid=${uid}; find /sys/fs/cgroup -path "*pod$uid.slice/pids.max" -exec cat {} +`;
      assert.equal(await cluster.sh(NODE, limit), '4096');
    },
  );

  await story.test('a pod cannot reach a port on the loopback of the node', async () => {
    const ports = (await cluster.sh(NODE, `ss -Hltn | awk '$4 ~ /^127\\./ {print $4}' | sed 's/.*://'`))
      .split('\n')
      .filter((port) => port !== '');
    assert.ok(ports.includes('6445') && ports.includes('9095'), ports.join());
    const endpoints = ports.flatMap((port) => [`127.0.0.1 ${port}`, `${address} ${port}`]);
    for (const line of (await inPod(cluster, CONNECT, ...endpoints)).split('\n')) {
      const [host = '', port = '', code = ''] = line.split(' ');
      const isGuarded = host === address && GUARDED.some((each) => String(each) === port);
      assert.ok(isGuarded || code === 'ECONNREFUSED', line);
      if (!isGuarded) attempted(`connect to ${host}:${port} from a pod`, 'the kernel', code);
    }
  });

  await story.test('the services on the address of the node refuse a tenant', async () => {
    const listening = await cluster.sh(NODE, `ss -Hltn | awk '{print $4}' | grep -Ev '^(127\\.|\\[::1\\])'`);
    const others = listening.split('\n').map((each) => Number(each.replace(/.*:/, '')));
    const known: readonly number[] = [...GUARDED, PUBLIC];
    assert.deepEqual(
      others.filter((port) => !known.includes(port)),
      [],
      'a port that this story does not try',
    );
    const want: Readonly<Record<number, RegExp>> = {
      2379: /^(ERR_SSL|ECONNRESET|EPROTO)/,
      2380: /^(ERR_SSL|ECONNRESET|EPROTO)/,
      2382: /^(ERR_SSL|ECONNRESET|EPROTO)/,
      2383: /^(ERR_SSL|ECONNRESET|EPROTO)/,
      6443: /^40[13]$/,
      9090: /^(ERR_SSL|ECONNRESET|EPROTO|4|HPE)/,
      9091: /^(ERR_SSL|ECONNRESET|EPROTO|4|HPE)/,
      10250: /^40[13]$/,
    };
    for (const port of GUARDED)
      for (const shown of ['', token]) {
        const path = port === 6443 ? '/api/v1/namespaces/kube-system/secrets' : '/pods';
        const code = await inPod(cluster, ASK, address, String(port), path, shown);
        assert.match(code, want[port] ?? /^$/, `${port}: ${code}`);
        attempted(
          `ask ${address}:${port}${path}${shown === '' ? '' : ' with the token'}`,
          'its server',
          code,
        );
      }
  });

  await story.test('the node can reach the cloud metadata service, a pod cannot', async () => {
    // A metadata service outside of the machine, as in a cloud.
    const outside = await cluster.workstation();
    for (const [service, port] of [
      [METADATA, 80],
      [WIRE_SERVER, 80],
      [WIRE_SERVER, 32526],
    ] as const) {
      await cluster.sh(NODE, `ip route replace ${service} via ${outside}`);
      const through = await inPod(cluster, CONNECT, `${service} ${port}`);
      assert.match(through, /EHOSTUNREACH/);
      attempted(`ask a service of the cloud, ${service}:${port}`, 'the node', through.split(' ')[2] ?? '');
    }
    // A metadata service on the machine itself.
    await cluster.sh(NODE, `ip route del ${METADATA} && ip addr add ${METADATA}/32 dev lo`);
    await cluster.sh(
      NODE,
      `systemd-run --quiet --unit fake-metadata /usr/lib/cluster/node -e "${SERVE_METADATA}"`,
    );
    await eventually(
      'the metadata service answers the node',
      20,
      () => cluster.run(NODE, '/usr/lib/cluster/node', '-e', CONNECT, `${METADATA} 80`),
      (said) => said.endsWith('open'),
    );
    const local = await inPod(cluster, CONNECT, `${METADATA} 80`);
    assert.match(local, /EHOSTUNREACH|ECONNREFUSED/);
    attempted(`ask a metadata service on the node, ${METADATA}`, 'the node', local.split(' ')[2] ?? '');
    await cluster.sh(NODE, `systemctl stop fake-metadata; ip addr del ${METADATA}/32 dev lo`);
  });

  await story.test("the cluster's own workloads still run", async () => {
    await eventually(
      'all pods run',
      60,
      () => kubectl(cluster, 'get', 'pods', '-A', '-o', 'jsonpath={.items[*].status.phase}'),
      (phases) => phases.split(' ').every((phase) => phase === 'Running'),
    );
  });
});

function kubectl(cluster: StoryCluster, ...args: readonly string[]): Promise<string> {
  return cluster.run(NODE, 'kubectl', ...args);
}

/**
 * Creates a namespace, a service account with the role `edit` in it, and its kubeconfig on the node. Returns
 * the token.
 */
async function makeTenant(cluster: StoryCluster): Promise<string> {
  await kubectl(cluster, 'create', 'namespace', TENANT);
  await kubectl(cluster, '-n', TENANT, 'create', 'serviceaccount', 'dev');
  const role = ['rolebinding', 'dev', '--clusterrole=edit', `--serviceaccount=${TENANT}:dev`];
  await kubectl(cluster, '-n', TENANT, 'create', ...role);
  const token = await kubectl(cluster, '-n', TENANT, 'create', 'token', 'dev');
  const config = ['config', '--kubeconfig', KUBECONFIG];
  const ca = '--certificate-authority=/etc/kubernetes/pki/ca.crt';
  await kubectl(cluster, ...config, 'set-cluster', 'c', '--server=https://127.0.0.1:6445', ca);
  await kubectl(cluster, ...config, 'set-credentials', 'dev', `--token=${token}`);
  await kubectl(cluster, ...config, 'set-context', 'c', '--cluster=c', '--user=dev', `--namespace=${TENANT}`);
  await kubectl(cluster, ...config, 'use-context', 'c');
  return token;
}

function asTenant(bench: Harness, { args, object }: ApiAttempt): Promise<CliResult> {
  const base64 = Buffer.from(JSON.stringify(object ?? {})).toString('base64');
  const words = ['kubectl', '--kubeconfig', KUBECONFIG, ...args].map((word) => `'${word}'`).join(' ');
  const script = `echo ${base64} | base64 -d | ${words}`;
  return bench.cli('mini', 'exec', '--name', NAME, NODE, '--', 'sh', '-c', script);
}

/** The PID of the first process in the tenant's pod, in the node's PID namespace. */
function pidOfPod(cluster: StoryCluster): Promise<string> {
  return cluster.sh(
    NODE,
    `uid=$(kubectl -n ${TENANT} get pod app -o 'jsonpath={.metadata.uid}' | tr - _); ` +
      `for pid in $(pgrep -x pause); do if grep -q "$uid" /proc/$pid/cgroup; then echo $pid; break; fi; done`,
  );
}

/**
 * Runs a program of the node in the network namespace of the tenant's pod. A program inside the pod has no
 * more access to the network.
 */
async function inPod(cluster: StoryCluster, program: string, ...args: readonly string[]): Promise<string> {
  const pid = await pidOfPod(cluster);
  return cluster.run(
    ...([
      NODE,
      'nsenter',
      '--net',
      '--target',
      pid,
      '/usr/lib/cluster/node',
      '-e',
      program,
      ...args,
    ] as const),
  );
}
