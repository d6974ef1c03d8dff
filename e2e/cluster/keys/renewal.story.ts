import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createHarness } from '../../machines/harness.ts';
import { ApiAvailability, certificateExpiryMs } from '../harness/api-availability.ts';
import { StoryCluster, withLifetimes } from '../harness/story-cluster.ts';
import { eventually, PAUSE_IMAGE } from '../harness/node-shell.ts';

/** Certificate lifetime. The renewal is due after four minutes; a missed renewal breaks the component two minutes later. */
const MINUTES = 6;
const YEAR_MS = 365 * 24 * 3600 * 1000;
const MACHINES = ['n1', 'n2'];

/**
 * When a certificate may be renewed, as fractions of its lifetime. The target is two thirds; the tolerance covers the
 * interval between two checks.
 */
const [EARLIEST, LATEST] = [0.55, 0.8];
const [OWNERS_CERTIFICATE, OWNERS_KUBECONFIG] = ['owner certificate', 'owner kubeconfig'];

/** The certificates in the output of `cluster status`, with times of RFC 3339. */
interface Status {
  readonly yours: { readonly certificate: string; readonly kubeconfig: string };
  readonly curator: {
    readonly value: {
      readonly nodes: readonly {
        readonly name: string;
        readonly certificates: readonly { readonly name: string; readonly notAfter: string }[];
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

  /** Expiry by certificate name, without certificates that are valid for years. Works for an unhealthy cluster too. */
  const all = async (): Promise<ReadonlyMap<string, number>> => {
    const asked = await bench.cli('--workspace', await cluster.workspace(), '--output', 'json', 'status');
    const { yours, curator } = (JSON.parse(asked.stdout.trim().split('\n').at(-1) ?? '') as { data: Status })
      .data;
    const ofNodes = curator.value.nodes.flatMap(({ name: node, certificates }) =>
      certificates.map(({ name, notAfter }) => [`${node} ${name}`, Date.parse(notAfter)] as const),
    );
    const ofOwner = [
      [OWNERS_CERTIFICATE, Date.parse(yours.certificate)],
      [OWNERS_KUBECONFIG, Date.parse(yours.kubeconfig)],
    ] as const;
    return new Map([...ofNodes, ...ofOwner].filter(([, notAfterMs]) => notAfterMs < Date.now() + YEAR_MS));
  };
  /**
   * Main processes that must not restart. Kubelets are left out, because a renewal restarts them. Components that
   * read their certificate files only every five minutes are left out too, because the certificates of this story are
   * valid for minutes only.
   */
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

  await story.test(
    `every certificate is renewed at two thirds of its lifetime of ${MINUTES} minutes`,
    async () => {
      await using api = new ApiAvailability(first);
      // At which fraction of its lifetime each certificate was replaced.
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
      story.diagnostic(
        `renewed after ${parts[0]?.toFixed(3)} to ${parts.at(-1)?.toFixed(3)} of their lifetimes`,
      );
      const others = [...renewedAt].filter(([, part]) => part < EARLIEST || part > LATEST);
      assert.deepEqual(others, []);
      assert.ok(api.longestOutageMs < 10_000, `the API paused for ${api.longestOutageMs} ms`);
    },
  );

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
      'the last of the first certificates has expired',
      MINUTES * 60,
      () => Promise.resolve(Date.now()),
      (now) => now > lastMs + 1000,
    );
    await cluster.allReady(MACHINES, 60);
    // These steps need a working controller manager, which creates the service account of the namespace, and
    // a working scheduler, which assigns a node to the pod.
    await cluster.sh('n1', 'kubectl create namespace later');
    await eventually(
      'the controller manager works',
      120,
      () => cluster.try('n1', 'kubectl', '-n', 'later', 'get', 'serviceaccount', 'default'),
      ({ code }) => code === 0,
    );
    await cluster.sh('n1', `kubectl -n later run later --image=${PAUSE_IMAGE}`);
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
    // For logs, the API server calls the kubelet with its client certificate.
    const { code, stderr } = await cluster.try('n1', 'kubectl', '-n', 'later', 'logs', 'later');
    assert.equal(code, 0, stderr);
    assert.deepEqual(await pids(), pidsBefore);
    const { healthy } = await cluster.cliJson<{ healthy: boolean }>('status');
    assert.equal(healthy, true);
    // The owner's certificate of the init has expired, so the CLI renews it with the owner's key.
    assert.match(await bench.must('--workspace', await cluster.workspace(), 'audit', 'ls'), /RenewOperator/);
  });

  await story.test(
    '`cluster kubeconfig --renew` writes a new key and certificate into the kubeconfig',
    async () => {
      const { kubeconfig: was } = await cluster.cliJson<{ kubeconfig: string }>('kubeconfig');
      const { kubeconfig: is } = await cluster.cliJson<{ kubeconfig: string }>('kubeconfig', '--renew');
      const keyIn = (text: string) => /client-key-data: (\S+)/.exec(text)?.[1];
      assert.notEqual(keyIn(is), keyIn(was));
      const { kubernetes } = await cluster.cliJson<{ kubernetes: { ok: boolean } }>('status');
      assert.equal(kubernetes.ok, true);
    },
  );
});
