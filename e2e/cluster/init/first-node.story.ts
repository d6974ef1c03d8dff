import assert from 'node:assert/strict';
import { createPrivateKey, createPublicKey } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { createHarness } from '../../machines/harness.ts';
import { measureWatchOpening } from './watch-opening.ts';
import {
  certificateNames,
  eventually,
  kubeletConfiguration,
  NodeShell,
  probePort,
} from '../harness/node-shell.ts';

await test('the first node of a cluster: its state, its secrets and its restart', async (story) => {
  await using bench = await createHarness();
  await bench.must('mini', 'up', '--name', 'first');
  const cluster = await bench.cluster('first');
  const { address } = await cluster.node('n1');
  const node = new NodeShell(bench, 'first');
  const workspace = cluster.paths.workspace;
  const nodeId = async (): Promise<string> => {
    const membership = JSON.parse(await node.run('cat', '/var/lib/cluster/membership/membership.json')) as {
      value: { nodeId: string };
    };
    return membership.value.nodeId;
  };
  const firstNodeId = await nodeId();

  await story.test('the init port is closed after the owner has acknowledged the init', async () => {
    assert.equal(await probePort(address, 9000), 'ECONNREFUSED');
  });

  await story.test(
    'the certificate of the API server is valid for its address, loopback and name',
    async () => {
      const names = await certificateNames(address, 6443);
      for (const name of [address, '127.0.0.1', 'DNS:n1', 'DNS:localhost'])
        assert.match(names, new RegExp(name.replaceAll('.', '\\.')));
    },
  );

  await story.test(
    'the cluster has no bootstrap token, no automatic CSR approval and no super-admin',
    async () => {
      assert.equal(
        await node.kubectl(
          'get',
          'secrets',
          '-A',
          '--field-selector',
          'type=bootstrap.kubernetes.io/token',
          '-o',
          'name',
        ),
        '',
      );
      const bindings = await node.kubectl('get', 'clusterrolebindings', '-o', 'name');
      assert.doesNotMatch(bindings, /bootstrap|autoapprove/);
      assert.equal(await node.exitCode('test', '-e', '/etc/kubernetes/super-admin.conf'), 1);
    },
  );

  await story.test(
    'kubelets request no certificates, and the API server verifies the certificates of kubelets',
    async () => {
      const kubelet = await kubeletConfiguration(node);
      assert.equal(kubelet.rotateCertificates, false);
      assert.notEqual(kubelet.serverTLSBootstrap, true);
      const argv = await node.run('sh', '-c', 'tr "\\0" "\\n" < /proc/$(pgrep -x kube-apiserver)/cmdline');
      const [, ca] = /^--kubelet-certificate-authority=(.+)$/m.exec(argv) ?? [];
      assert.ok(ca !== undefined, argv);
      assert.match(await node.run('cat', ca), /BEGIN CERTIFICATE/);
    },
  );

  await story.test('secrets are encrypted in etcd', async () => {
    await node.kubectl('create', 'secret', 'generic', 'treasure', '--from-literal=word=plaintext-5c1e');
    const raw = await node.etcdctl(
      'kubernetes-root',
      'get',
      '/registry/secrets/default/treasure',
      '--print-value-only',
    );
    assert.match(raw.stdout, /^k8s:enc:secretbox:v1:/);
    assert.doesNotMatch(raw.stdout, /plaintext-5c1e/);
    assert.match(
      await node.kubectl('get', 'secret', 'treasure', '-o', 'jsonpath={.data.word}'),
      /^cGxhaW50ZXh0LTVjMWU=$/,
    );
  });

  await story.test(
    'the API server and the curator each have their own etcd and no access to the other etcd',
    async () => {
      assert.equal(
        (await node.etcdctl('apiserver', 'get', '--prefix', '/registry/namespaces/default')).code,
        0,
      );
      assert.equal((await node.etcdctl('apiserver', 'endpoint', 'status')).code, 0);
      assert.equal((await node.etcdctl('curator', 'get', '--prefix', '/cluster/', '--keys-only')).code, 0);
      const records = await node.etcdctl(
        'kubernetes-root',
        'get',
        '--prefix',
        '/cluster/nodes/',
        '--keys-only',
      );
      assert.equal(records.stdout.trim(), '', 'records of the cluster are not in the Kubernetes etcd');
      const pairs = [
        ['apiserver', 'root', 'apiserver'],
        ['curator', 'kubernetes-root', 'root'],
        ['signer', 'kubernetes-root', 'root'],
      ] as const;
      const answers = pairs.map(async ([client, other, own]) => [
        await node.tlsAnswer(client, other),
        await node.tlsAnswer(client, own),
      ]);
      for (const [atOther, atOwn] of await Promise.all(answers)) {
        assert.equal(atOther, 'ERR_SSL_TLSV1_ALERT_UNKNOWN_CA');
        assert.equal(atOwn, 'HTTP/1.1 200 OK');
      }
    },
  );

  await story.test(
    'a watch without a resource version starts at once, also after a write to another resource',
    async (step) => {
      const waits = await measureWatchOpening(join(workspace, 'kubeconfig'), address, 10);
      step.diagnostic(`first events after ${waits.join(', ')} ms`);
      assert.ok(Math.max(...waits) < 1_000, waits.join());
    },
  );

  await story.test(
    'status and node ls show the cluster, the size and quota of etcd, and the node',
    async () => {
      // The status is unhealthy (exit code 10) until the last pod is ready.
      const ask = (): Promise<string> => bench.must('--workspace', workspace, 'status');
      const status = await eventually('the cluster is healthy', 120, ask, (text) =>
        /n1 +Healthy +Ready +control-plane,worker /.test(text),
      );
      for (const etcd of ['state etcd', 'kube etcd'])
        assert.match(
          status,
          new RegExp(`${etcd} +1 member, has a leader, (?:at most )?[\\d.]+ [KM]iB of [\\d.]+ GiB`),
        );
      const nodes = (await bench.must('--workspace', workspace, '--output', 'json', 'node', 'ls'))
        .trim()
        .split('\n');
      const [first] = nodes
        .map((line) => JSON.parse(line) as { type: string; data: unknown })
        .filter(({ type }) => type === 'result');
      assert.match(JSON.stringify(first), new RegExp(firstNodeId));
    },
  );

  await story.test(
    'no disk of the node has secrets of the owner, and the secret for disk shares is only in its own file',
    async () => {
      const request = await node.run('cat', '/var/lib/cluster/init/request.json');
      assert.match(request, /"clusterUnlockKeyHex":""/);
      const { key } = JSON.parse(await readFile(join(workspace, 'master-secret.json'), 'utf8')) as {
        key: string;
      };
      const ownerPem = await readFile(join(workspace, 'owner-key.pem'), 'utf8');
      const owner = createPrivateKey(ownerPem);
      const seed = owner.export({ format: 'der', type: 'pkcs8' }).subarray(-32);
      const spoken = (bytes: Buffer): readonly string[] => [
        bytes.toString('hex'),
        bytes.toString('base64').replaceAll('=', ''),
        bytes.toString('base64url'),
      ];
      const directories = '/var/lib/cluster /etc/cluster /etc/kubernetes /etc/systemd/system /run/cluster';
      const search = (text: string): Promise<number> =>
        node.exitCode(
          'sh',
          '-c',
          `{ grep -rhaF -e '${text}' ${directories} 2>/dev/null; journalctl | grep -aF -e '${text}'; } | grep -q .`,
        );
      // Proves that the search works: it finds the owner's public key, which is in the provisioning file.
      const pubKey = createPublicKey(owner).export({ format: 'der', type: 'spki' }).subarray(-32);
      assert.equal(await search(pubKey.toString('base64')), 0);
      // In PEM the seed follows a header, so that its base64 differs from that of the seed alone.
      const [, pemBody = ''] = ownerPem.split('\n');
      assert.match(pemBody, /^[\w+/=]{40,}$/);
      for (const text of [...[Buffer.from(key, 'base64'), seed].flatMap(spoken), pemBody])
        assert.equal(await search(text), 1);
      const secretPath = '/var/lib/cluster/keys/disk-shares.key';
      const secret = (await node.run('cat', secretPath)).trim();
      assert.match(secret, /^[0-9a-f]{64}$/);
      assert.equal((await node.run('stat', '-c', '%a %U', secretPath)).trim(), '600 root');
      const holders = `grep -rlaF -e '${secret}' ${directories} 2>/dev/null || true`;
      assert.equal((await node.run('sh', '-c', holders)).trim(), secretPath);
    },
  );

  await story.test('workloads keep running when the agent is killed', async () => {
    const pids = (): Promise<string> =>
      node.run(
        'sh',
        '-c',
        'for u in cluster-etcd-state cluster-etcd-kubernetes cluster-joinservice cluster-apilb cluster-containerd kubelet; do systemctl show -P MainPID $u; done',
      );
    const before = await pids();
    await node.run('systemctl', 'kill', '--signal=KILL', '--kill-whom=main', 'bootstrapper');
    await eventually(
      'the agent runs again',
      30,
      () => node.run('systemctl', 'is-active', 'bootstrapper'),
      (state) => state === 'active',
    );
    await eventually(
      'the agent follows its roles again',
      60,
      () => node.run('journalctl', '-u', 'bootstrapper', '--no-pager', '-n', '40'),
      (log) => /"phase finished","phase":"node"/.test(log),
    );
    assert.equal(await pids(), before);
  });

  await story.test(
    'a machine that is switched off and on becomes Ready again with the same ID and without a new admission',
    async () => {
      await bench.must('mini', 'stop', '--name', 'first', 'n1');
      // Probes the port from the start of the boot on: the port must never be open.
      const answers: string[] = [];
      const probing = new AbortController();
      const probes = (async () => {
        while (!probing.signal.aborted) {
          answers.push(await probePort(address, 9000));
          await delay(20);
        }
      })();
      try {
        await bench.must('mini', 'start', '--name', 'first', 'n1');
        // The machine keeps its MAC address, so the neighbour caches stay valid and it answers at once.
        assert.equal(await probePort(address, 9000), 'ECONNREFUSED');
        const ready = (): Promise<string> => node.kubectl('get', 'nodes', '--no-headers');
        await eventually('the node is Ready', 120, ready, (line) => /^n1 +Ready /.test(line));
      } finally {
        probing.abort();
        await probes;
      }
      assert.ok(!answers.includes('open'), answers.join());
      assert.equal(await nodeId(), firstNodeId);
      await eventually(
        'the curator answers',
        60,
        () => bench.must('--workspace', workspace, 'node', 'ls'),
        (table) => /n1 +Healthy /.test(table),
      );
    },
  );

  await story.test('the same init command changes nothing and reports that', async () => {
    const said = await bench.must('--workspace', workspace, 'init');
    assert.match(said, /nothing was changed/);
  });
});
