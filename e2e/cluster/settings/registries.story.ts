import assert from 'node:assert/strict';
import { mkdir, writeFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { parse, stringify } from 'yaml';
import { DEFAULT_KUBERNETES_VERSION } from '../../../internal/bundle/index.ts';
import { createHarness, type Harness } from '../../machines/harness.ts';
import { eventually } from '../harness/node-shell.ts';
import { Registry } from '../harness/registry.ts';
import { cliJson, StoryCluster } from '../harness/story-cluster.ts';
import { ForwardProxy } from './forward-proxy.ts';
import { createPrivateCa } from './private-ca.ts';

const NAME = 'registries';
const PASSWORDS = { team: 'team-Aeb4uCh0', mirror: 'mirror-oGh7ieSh', rotated: 'rotated-Ood6eiph' };
/** The name of a registry that only the proxy can resolve. */
const HIDDEN = 'images.behind.example';
const UNIT_PID = ['show', '--property', 'MainPID,NRestarts', 'cluster-containerd.service', 'kubelet.service'];

await test('registries with a private CA, logins and a mirror of docker.io on each node of a cluster', async (story) => {
  await using bench = await createHarness();
  const cluster = new StoryCluster(bench, NAME);
  await cluster.machines({ controlPlanes: 1, workers: 1 });
  const host = await cluster.workstation();
  const layout = await pauseImage(bench);
  const { caPem, issue } = await createPrivateCa(host);
  await using team = await Registry.start(bench.directory, host, {
    ...{ name: 'team', tls: await issue(), login: `ann:${PASSWORDS.team}`, token: true },
    image: { reference: 'team/app:1', layout },
  });
  await using mirror = await Registry.start(bench.directory, host, {
    ...{ name: 'mirror', tls: await issue(), login: `bob:${PASSWORDS.mirror}` },
    image: { reference: 'library/app:1', layout },
  });
  const workspace = await cluster.workspace();
  const logins = (mirrorPassword: string) =>
    writeLogins(workspace, {
      [team.address]: `ann:${PASSWORDS.team}`,
      [mirror.address]: `bob:${mirrorPassword}`,
    });
  const mirrored = (name: string) => ({
    name,
    fallback: false,
    mirrors: [{ url: `https://${mirror.address}`, ca: caPem, credentials: true }],
  });
  const privateOne = { name: team.address, ca: caPem, credentials: true };
  const configure = (...registries: readonly object[]) =>
    cluster.edit((yaml) => stringify({ ...(parse(yaml) as object), registries }));
  const apply = () => bench.must('--workspace', workspace, 'config', 'apply', '--yes');
  await configure(privateOne, mirrored('docker.io'));

  await story.test(
    'init refuses a registry whose credentials the workspace does not have, before it touches a machine',
    async () => {
      const { code, stderr } = await bench.cli('mini', 'up', '--name', NAME);
      assert.notEqual(code, 0);
      assert.match(stderr, /registries-credentials-missing/);
      assert.ok(stderr.includes(team.address));
      await assert.rejects(cluster.run('n1', 'test', '-e', '/etc/kubernetes'));
    },
  );

  await story.test(
    'the first node and a later one pull from the private registry and from the mirror',
    async () => {
      await logins(PASSWORDS.mirror);
      await cluster.up();
      for (const node of ['n1', 'n2']) {
        await runsPod(cluster, { name: `team-${node}`, node, image: `${team.address}/team/app:1` });
        await runsPod(cluster, { name: `hub-${node}`, node, image: 'app:1' });
      }
      assert.ok(team.requests.some((line) => line === 'GET /token 200'));
      assert.ok(
        mirror.requests.some(
          (line) =>
            line === 'GET /v2/library/app/manifests/1 200' ||
            line.startsWith('HEAD /v2/library/app/manifests/1 200'),
        ),
      );
    },
  );

  await story.test(
    'passwords are in no etcd, argument or log, and only root reads them on a node',
    async () => {
      const found = await cluster.run(
        'n1',
        'stat',
        '-c',
        '%a %U',
        '/etc/containerd/certs.d/docker.io/hosts.toml',
      );
      assert.equal(found, '600 root');
      const secrets = Object.values(PASSWORDS).slice(0, 2);
      for (const [user, password] of [
        ['ann', secrets[0] ?? ''],
        ['bob', secrets[1] ?? ''],
      ] as const) {
        const forms = [password, Buffer.from(`${user}:${password}`).toString('base64').replaceAll('=', '')];
        for (const form of forms) {
          const grep = (where: string) =>
            `grep --recursive --text --files-with-matches --fixed-strings -e '${form}' ${where} || true`;
          assert.equal(await cluster.sh('n1', grep('/var/lib/cluster /var/log /etc/kubernetes')), '');
          assert.equal(await cluster.sh('n2', grep('/var/lib/cluster /var/log /var/lib/kubelet')), '');
          for (const node of ['n1', 'n2']) {
            const journal = await cluster.sh(
              node,
              `journalctl --no-pager -o cat | grep --count --fixed-strings -e '${form}' || true`,
            );
            assert.equal(journal, '0');
          }
        }
        const shown = await bench.must('--workspace', workspace, 'config', 'show');
        assert.ok(!forms.some((form) => shown.includes(form)));
      }
      // Reads the Secret with Node instead of kubectl, because workers have no kubectl.
      const asNode = (secret: string) =>
        cluster.run('n2', '/usr/lib/cluster/node', '-e', readSecretAsKubelet(secret));
      assert.equal(await asNode('cluster-registry-credentials'), '200');
      await cluster.run(
        'n1',
        'kubectl',
        '--namespace',
        'kube-system',
        'create',
        'secret',
        'generic',
        'other',
      );
      assert.equal(await asNode('other'), '403');
    },
  );

  await story.test(
    'a registry that is added later and a new password reach running nodes, and restart nothing',
    async () => {
      const before = await Promise.all(
        ['n1', 'n2'].map((node) => cluster.run(node, 'systemctl', ...UNIT_PID)),
      );
      await cluster.sh(
        'n2',
        `mkdir -p /etc/containerd/certs.d/own.example && echo '# mine' > /etc/containerd/certs.d/own.example/hosts.toml`,
      );
      await configure(privateOne, mirrored('docker.io'), mirrored('quay.example'), mirrored('own.example'));
      await apply();
      const appliedMs = Date.now();
      for (const node of ['n1', 'n2']) {
        await eventually(
          `${node} has the new registry`,
          30,
          () => cluster.run(node, 'ls', '/etc/containerd/certs.d'),
          (names) => names.includes('quay.example'),
        );
        story.diagnostic(`${node} has the new registry after ${Date.now() - appliedMs} ms`);
        await runsPod(cluster, { name: `quay-${node}`, node, image: 'quay.example/library/app:1' });
      }
      assert.equal(
        await cluster.run('n2', 'cat', '/etc/containerd/certs.d/own.example/hosts.toml'),
        '# mine',
      );
      // A node reports its status some seconds after a change.
      await eventually(
        'n2 names the directory of the operator',
        30,
        () => bench.must('--workspace', workspace, 'node', 'show', 'n2'),
        (shown) => /own\.example, which is not from cluster\.yaml/.test(shown),
      );
      await mirror.setLogin(`bob:${PASSWORDS.rotated}`);
      await logins(PASSWORDS.rotated);
      assert.match(await apply(), /No changes/);
      const rotatedMs = Date.now();
      await eventually(
        'n2 has the new password',
        60,
        () => cluster.sh('n2', `cat /etc/containerd/certs.d/docker.io/hosts.toml`),
        (text) => text.includes(Buffer.from(`bob:${PASSWORDS.rotated}`).toString('base64')),
      );
      story.diagnostic(`n2 has the new password after ${Date.now() - rotatedMs} ms`);
      await runsPod(cluster, { name: 'rotated', node: 'n2', image: 'docker.io/library/app:1' });
      const after = await Promise.all(
        ['n1', 'n2'].map((node) => cluster.run(node, 'systemctl', ...UNIT_PID)),
      );
      assert.deepEqual(after, before);
    },
  );

  await story.test(
    'when registries are removed from the configuration, nodes delete their files and keep files that an operator wrote',
    async () => {
      await configure();
      await apply();
      for (const [node, kept] of [
        ['n1', ''],
        ['n2', 'own.example'],
      ] as const)
        await eventually(
          `${node} has only ${kept || 'nothing'}`,
          30,
          () => cluster.run(node, 'ls', '/etc/containerd/certs.d'),
          (names) => names === kept,
        );
      const secrets = await cluster.run(
        'n1',
        'kubectl',
        '--namespace',
        'kube-system',
        'get',
        'secret,role',
        '-o',
        'name',
      );
      assert.ok(!secrets.includes('cluster-registry-credentials'));
    },
  );

  await story.test('nodes pull through the proxy of the configuration until it is removed', async () => {
    await using hidden = await Registry.start(bench.directory, host, {
      ...{ name: 'hidden', image: { reference: 'library/app:1', layout } },
    });
    await using proxy = await ForwardProxy.start(host, { [HIDDEN]: hidden.address });
    const registries = [{ name: 'docker.io', fallback: false, mirrors: [{ url: `http://${HIDDEN}` }] }];
    const pods = () => cluster.run('n2', 'pgrep', '--count', 'containerd-shim');
    const before = await pods();
    await cluster.edit((yaml) =>
      stringify({ ...(parse(yaml) as object), registries, proxy: { http: proxy.url } }),
    );
    await apply();
    const variables = (node: string) =>
      cluster.sh(node, 'tr "\\0" "\\n" < /proc/$(pgrep -x containerd)/environ');
    for (const node of ['n1', 'n2'])
      await eventually(
        `containerd of ${node} has the proxy`,
        60,
        () => variables(node),
        (environment) => environment.includes(`HTTP_PROXY=${proxy.url}`),
      );
    assert.match(await variables('n2'), /^NO_PROXY=.*\.svc,.*198\.19\.128\.0\/17/m);
    assert.equal(await pods(), before, 'containers keep running');
    await runsPod(cluster, { name: 'proxied', node: 'n2', image: 'docker.io/library/app:1' });
    assert.ok(proxy.requests.some((url) => url.startsWith(`http://${HIDDEN}/v2/library/app/`)));
    await cluster.edit((yaml) => stringify({ ...(parse(yaml) as object), registries, proxy: {} }));
    await apply();
    for (const node of ['n1', 'n2'])
      await eventually(
        `containerd of ${node} has no proxy`,
        60,
        () => variables(node),
        (environment) => environment !== '' && !environment.includes('_PROXY='),
      );
  });
});

/** A script that requests a Secret with the credentials of the kubelet, and prints the status of the response. */
function readSecretAsKubelet(secret: string): string {
  return `const read = (name) => require('node:fs').readFileSync('/var/lib/cluster/kubernetes/' + name);
    require('node:https').get({ host: '127.0.0.1', port: 6445, path: '/api/v1/namespaces/kube-system/secrets/${secret}',
      ca: read('kubernetes-ca.crt'), cert: read('kubelet-client.crt'), key: read('kubelet-client.key') },
      (response) => { console.log(response.statusCode); response.destroy(); });`;
}

/** Starts a pod on a node without the scheduler, and waits until it runs. Its image is pulled in any case. */
async function runsPod(
  cluster: StoryCluster,
  { name, node, image }: { readonly name: string; readonly node: string; readonly image: string },
): Promise<void> {
  const pod = {
    ...{ apiVersion: 'v1', kind: 'Pod', metadata: { name } },
    spec: {
      nodeName: node,
      terminationGracePeriodSeconds: 0,
      tolerations: [{ operator: 'Exists' }],
      containers: [{ name: 'main', image, imagePullPolicy: 'Always' }],
    },
  };
  await cluster.sh('n1', `echo '${JSON.stringify(pod)}' | kubectl apply -f -`);
  await eventually(
    `pod ${name} runs`,
    120,
    () =>
      cluster.run(
        'n1',
        'kubectl',
        'get',
        'pod',
        name,
        '-o',
        'jsonpath={.status.phase} {.status.containerStatuses[0].state}',
      ),
    (status) => status.startsWith('Running'),
  );
}

/** The directory of the pause image of the bundle, as an OCI image layout. */
async function pauseImage(bench: Harness): Promise<string> {
  const { components } = await cliJson<{ components: readonly { name: string; sha256: string }[] }>(
    bench,
    ...['bundle', 'ls', '--kubernetes-version', DEFAULT_KUBERNETES_VERSION],
  );
  const sha256 = components.find(({ name }) => name === 'pause')?.sha256 ?? '';
  const directory = join(bench.directory, 'pause');
  await mkdir(directory);
  const archive = join(homedir(), '.cache/cluster/blobs/sha256', sha256);
  await bench.machines.commands.run({
    argv: ['tar', '-xf', archive, '-C', directory],
    timeoutMs: 60_000,
    signal: bench.signal,
  });
  return directory;
}

/** Writes registry-credentials.json, as `docker login` does. */
async function writeLogins(workspace: string, logins: Readonly<Record<string, string>>): Promise<void> {
  const auths = Object.fromEntries(
    Object.entries(logins).map(([server, login]) => [
      server,
      { auth: Buffer.from(login).toString('base64') },
    ]),
  );
  await writeFile(join(workspace, 'registry-credentials.json'), JSON.stringify({ auths }), { mode: 0o600 });
}
