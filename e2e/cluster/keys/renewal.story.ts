import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createHarness } from '../../machines/harness.ts';
import { ApiAvailability, certificateExpiryMs } from '../harness/api-availability.ts';
import { StoryCluster, withLifetimes } from '../harness/story-cluster.ts';
import { eventually } from '../harness/node-shell.ts';

/** Renewed after four minutes; what is not ends what uses it two minutes later. */
const MINUTES = 6;
const YEAR_MS = 365 * 24 * 3600 * 1000;
const MACHINES = ['n1', 'n2'];

/** Of a life, when a renewal is to be: at two thirds, and a look around it. */
const [EARLIEST, LATEST] = [0.55, 0.8];
const [OWNERS_CERTIFICATE, OWNERS_KUBECONFIG] = ['owner certificate', 'owner kubeconfig'];

/** What `cluster status` says of certificates. */
interface Status {
  readonly yours: { readonly certificateMs: number; readonly kubeconfigMs: number };
  readonly curator: {
    readonly value: {
      readonly nodes: readonly {
        readonly name: string;
        readonly certificates: readonly { readonly name: string; readonly notAfterMs: number }[];
      }[];
    };
  };
}

await test('every certificate of a cluster is renewed while it works', async (story) => {
  await using bench = await createHarness();
  const cluster = new StoryCluster(bench, 'renewal');
  await cluster.machines({ controlPlanes: 1, workers: 1 }, withLifetimes(MINUTES));
  await cluster.up();
  const addresses = await Promise.all(MACHINES.map((machine) => cluster.address(machine)));
  const [first = '', second = ''] = addresses;
  const listeners = [
    ['the Kubernetes etcd', first, 2379],
    ['the state etcd', first, 2382],
    ['the API server', first, 6443],
    ['the kubelet of n1', first, 10250],
    ['the kubelet of n2', second, 10250],
    ['the curator', first, 9091],
  ] as const;

  /** Name → when it runs out, without those that live for years. It need not be healthy to be asked. */
  const all = async (): Promise<ReadonlyMap<string, number>> => {
    const asked = await bench.cli('--workspace', await cluster.workspace(), '--output', 'json', 'status');
    const { yours, curator } = (JSON.parse(asked.stdout.trim().split('\n').at(-1) ?? '') as { data: Status })
      .data;
    const ofNodes = curator.value.nodes.flatMap(({ name: node, certificates }) =>
      certificates.map(({ name, notAfterMs }) => [`${node} ${name}`, notAfterMs] as const),
    );
    const ofOwner = [
      [OWNERS_CERTIFICATE, yours.certificateMs],
      [OWNERS_KUBECONFIG, yours.kubeconfigMs],
    ] as const;
    return new Map([...ofNodes, ...ofOwner].filter(([, notAfterMs]) => notAfterMs < Date.now() + YEAR_MS));
  };
  /** Without kubelets, which are restarted for what they show, and without those who look at their files every five minutes: lives of minutes are too short for them. */
  const pids = async (): Promise<readonly string[]> =>
    Promise.all([
      cluster.pidOf('n1', 'cluster-etcd-state.service'),
      cluster.pidOf('n1', 'cluster-etcd-kubernetes.service'),
      cluster.run('n1', 'pgrep', '-x', 'kube-apiserver'),
      cluster.pidOf('n1', 'cluster-containerd.service'),
    ]);

  const before = await all();
  const [pidsBefore, servedBefore] = [
    await pids(),
    await Promise.all(listeners.map(([, host, port]) => certificateExpiryMs(host, port))),
  ];

  await story.test('status and metrics show the expiry of each certificate', async () => {
    const files = [...before.keys()].map((name) => name.split('/').slice(-2).join('/'));
    for (const file of [
      OWNERS_CERTIFICATE,
      OWNERS_KUBECONFIG,
      'pki/apiserver.crt',
      'pki/apiserver-kubelet-client.crt',
      'pki/front-proxy-client.crt',
      'controller-manager/client.crt',
      'scheduler/client.crt',
      'kubernetes/admin.conf',
      'pki/server.crt',
      'pki/peer.crt',
      'apiserver/client.crt',
      'curator/client.crt',
      'signer/client.crt',
      'root/client.crt',
      'credentials/node.crt',
      'kubernetes/kubelet-client.crt',
      'kubernetes/kubelet-serving.crt',
    ])
      assert.ok(files.includes(file), `${file} is not among ${files.join(', ')}`);
    assert.equal(files.filter((file) => file === 'kubernetes/kubelet-serving.crt').length, 2);
    const metrics = await bench.must('--workspace', await cluster.workspace(), 'node', 'metrics', 'n1');
    assert.match(
      metrics,
      /cluster_certificate_expiry_seconds\{certificate="\/etc\/kubernetes\/pki\/apiserver\.crt"\} \d+/,
    );
  });

  await story.test(`each is renewed at two thirds of its ${MINUTES} minutes`, async () => {
    await using api = new ApiAvailability(first);
    // Of its life, how much a certificate had left behind when the next one was made.
    const renewedAt = new Map<string, number>();
    await eventually(
      'every certificate is a new one',
      MINUTES * 60 + 60,
      async () => {
        for (const [name, endMs] of await all()) {
          const aheadMs = endMs - (before.get(name) ?? endMs);
          if (aheadMs > 0 && !renewedAt.has(name)) renewedAt.set(name, aheadMs / (MINUTES * 60_000));
        }
        return [...before.keys()].filter((name) => !renewedAt.has(name));
      },
      (old) => old.length === 0,
    );
    const parts = [...renewedAt.values()].toSorted();
    story.diagnostic(`renewed after ${parts[0]?.toFixed(3)} to ${parts.at(-1)?.toFixed(3)} of their lives`);
    const others = [...renewedAt].filter(([, part]) => part < EARLIEST || part > LATEST);
    assert.deepEqual(others, []);
    assert.ok(api.longestOutageMs < 10_000, `the API paused for ${api.longestOutageMs} ms`);
  });

  await story.test('the same processes serve the renewed certificates', async () => {
    for (const [index, [what, host, port]] of listeners.entries())
      await eventually(
        `${what} shows a new certificate`,
        90,
        () => certificateExpiryMs(host, port),
        (until) => until > (servedBefore[index] ?? 0),
      );
    assert.deepEqual(await pids(), pidsBefore);
  });

  await story.test('everything works when all first certificates have expired', async () => {
    const lastMs = Math.max(...before.values());
    await eventually(
      'the last of the first ones runs out',
      MINUTES * 60,
      () => Promise.resolve(Date.now()),
      (now) => now > lastMs + 1000,
    );
    await cluster.allReady(MACHINES, 60);
    // A namespace gets its account from the controller manager, a pod its node from the scheduler.
    await cluster.sh('n1', 'kubectl create namespace later');
    await eventually(
      'the controller manager works',
      120,
      () => cluster.try('n1', 'kubectl', '-n', 'later', 'get', 'serviceaccount', 'default'),
      ({ code }) => code === 0,
    );
    await cluster.sh('n1', 'kubectl -n later run later --image=registry.k8s.io/pause:3.10.1');
    await eventually(
      'scheduler and kubelet work',
      120,
      () =>
        cluster.sh(
          'n1',
          `kubectl -n later get pod later -o jsonpath='{.spec.nodeName} {.status.phase}{"\\n"}' && kubectl -n later get events --no-headers -o custom-columns=M:.message | tail -n 3`,
        ),
      (now) => /^n\d Running\n/.test(now),
    );
    // The API server asks the kubelet with its client certificate.
    const { code, stderr } = await cluster.try('n1', 'kubectl', '-n', 'later', 'logs', 'later');
    assert.equal(code, 0, stderr);
    assert.deepEqual(await pids(), pidsBefore);
    const { healthy } = await cluster.cliJson<{ healthy: boolean }>('status');
    assert.equal(healthy, true);
    // By the owner's key alone: what the init gave has run out.
    assert.match(await bench.must('--workspace', await cluster.workspace(), 'audit', 'ls'), /RenewOperator/);
  });

  await story.test('the kubeconfig gets a new key and certificate on request', async () => {
    const { kubeconfig: was } = await cluster.cliJson<{ kubeconfig: string }>('kubeconfig');
    const { kubeconfig: is } = await cluster.cliJson<{ kubeconfig: string }>('kubeconfig', '--renew');
    const keyIn = (text: string) => /client-key-data: (\S+)/.exec(text)?.[1];
    assert.notEqual(keyIn(is), keyIn(was));
    const { kubernetes } = await cluster.cliJson<{ kubernetes: { ok: boolean } }>('status');
    assert.equal(kubernetes.ok, true);
  });
});
