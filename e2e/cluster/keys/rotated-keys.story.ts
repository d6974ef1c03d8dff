import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { reportRefused } from '../../attack-report.ts';
import { createHarness } from '../../machines/harness.ts';
import { StoryCluster } from '../harness/story-cluster.ts';
import { eventually, NodeShell } from '../harness/node-shell.ts';
import { change, containersOf, deployApp, reportOf } from './rotation-app.ts';
import { divertedWorkspace, FalseCurator } from './false-curator.ts';
import { answerTo, divertKubeconfig, FalseApiServer, kubeletTrust } from './false-api-server.ts';
import { readFromBackup } from './restored-secret.ts';
import { CredentialThief } from './stolen-credentials.ts';
import { EncryptionKeyThief, uniqueText } from './stolen-encryption-key.ts';

const NAME = 'keys';
const LEFT = ['n1', 'n2', 'n4'];
/**
 * Maximum time without the API for a pod. The API server on the pod's node restarts twice, and each time the
 * node's balancer must change to another server.
 */
const PAUSE_MS = 8_000;
/**
 * A watch that was cut continues at its last version without a new list, unless the API server has just
 * started and does not have this version in its cache.
 */
const MAX_RELISTS = 8;
/** Matches a line about a refused credential: the endpoint, the credential and the answer. */
const REFUSED = /^(.+), (.+, (?:forged|as copied)): refused \((.+)\)$/;

await test('after the loss of a control plane the shared keys are replaced, and a copy of the lost disk is useless', async (story) => {
  await using bench = await createHarness();
  await bench.must('mini', 'up', '--name', NAME, '--control-planes', '3', '--workers', '2');
  const cluster = new StoryCluster(bench, NAME);
  const workspace = await cluster.workspace();
  const must = (...args: readonly string[]) => bench.must('--workspace', workspace, ...args);
  const first = new NodeShell(bench, NAME);
  const addresses = new Map<string, string>();
  for (const name of LEFT) addresses.set(name, await cluster.address(name));
  const at = (name: string): string => addresses.get(name) ?? '';
  await deployApp(first, [...LEFT, 'n3']);

  const thief = await CredentialThief.of(cluster, 'n3');
  const oldTrust = await kubeletTrust(cluster, 'n4');
  const answers = async (): Promise<readonly string[]> =>
    (
      await Promise.all([
        thief.atControlPlane(at('n1')),
        thief.atControlPlane(at('n2')),
        thief.atWorker(at('n4')),
      ])
    ).flat();

  await story.test(
    'before the rotation, credentials forged with a copy of the lost disk work everywhere except at curators',
    async () => {
      for (const line of await answers())
        assert.match(line, line.startsWith('curator') ? REFUSED : /: accepted$/);
    },
  );

  const unique = uniqueText();
  await first.kubectl(
    'create',
    'secret',
    'generic',
    '-n',
    'default',
    'unique',
    `--from-literal=text=${unique}`,
  );
  const away = await mkdtemp(join(tmpdir(), 'cluster-away-'));
  await using _away = { [Symbol.asyncDispose]: () => rm(away, { recursive: true, force: true }) };
  const asAnn = (...args: readonly string[]) => bench.cli('--workspace', away, ...args);
  assert.equal((await asAnn('operator', 'key', 'ann', '--request', join(away, 'ann.csr'))).code, 0);
  await must(
    ...['operator', 'add', 'ann', '--role', 'viewer'],
    ...['--request', join(away, 'ann.csr'), '--out', join(away, 'ann.grant')],
  );
  assert.equal((await asAnn('operator', 'accept', join(away, 'ann.grant'))).code, 0);
  const reader = await EncryptionKeyThief.of(cluster, 'n3');
  const kept = await mkdtemp(join(tmpdir(), 'cluster-backups-'));
  await using _kept = { [Symbol.asyncDispose]: () => rm(kept, { recursive: true, force: true }) };
  const backup = async (name: string): Promise<string> => {
    const file = join(kept, name);
    await must('backup', 'create', '--to', file);
    return file;
  };
  const early = await backup('before.backup');

  await story.test(
    'before the rotation, the encryption key of the lost disk opens every stored secret',
    async (step) => {
      const { all, opened, texts } = await reader.tryAll(cluster, 'n1');
      step.diagnostic(`${opened} of ${all} values opened`);
      assert.ok(all >= 10 && opened === all, `${opened} of ${all}`);
      assert.ok(texts.includes(unique));
    },
  );

  const before = await containersOf(first, LEFT);
  const allSee = async (count: number): Promise<void> => {
    await change(first, count);
    for (const name of LEFT)
      await eventually(
        `the watch of ${name} receives the change`,
        30,
        () => reportOf(first, name),
        ({ watched }) => watched === count,
      );
  };

  await story.test('the removal of the lost control plane rotates the keys and reports it', async (step) => {
    await cluster.cutPower('n3');
    await cluster.cutPower('n5');
    await eventually(
      'the lost control plane counts as not responding',
      120,
      () => must('node', 'ls'),
      (table) => /^n3 +NotResponding /m.test(table) && /^n5 +NotResponding /m.test(table),
    );
    // Starts the measurement only now, so that it excludes the effects of the machine that is off.
    await allSee(2);
    const startMs = Date.now();
    const said = await must('--output', 'wide', 'node', 'remove', '--yes', 'n3', '--lost');
    step.diagnostic(said);
    step.diagnostic(`${Math.round((Date.now() - startMs) / 1000)} s`);
    assert.match(said, /The keys were replaced\. Credentials made with the old ones are refused/);
    assert.match(said, /service account key +refused at API server on n1, n2, kubelet on/);
    assert.match(said, /encryption key +refused at objects in the Kubernetes etcd on n[12]/);
    assert.match(
      await must('keys', 'show'),
      /^generation 2, .*requested .*: n3 \(node-\w+\) was lost with these keys/,
    );
    assert.doesNotMatch((await bench.cli('--workspace', workspace, 'status')).stdout, /^key rotation /m);
  });

  await story.test(
    'the CLI refuses a forged curator whose certificate was issued with a copy of the old cluster CA',
    async (step) => {
      await using curator = await FalseCurator.start(thief);
      const to = await divertedWorkspace(workspace, join(away, 'diverted'), curator.endpoint);
      const { code, stderr } = await bench.cli('--workspace', to, 'operator', 'ls');
      assert.notEqual(code, 0);
      assert.match(stderr, /pki-untrusted/);
      // The only call of the CLI to this curator asks for a newer CA. The call reveals nothing but the public key of
      // the CLI, and the CLI accepts no CA without an owner's signature.
      assert.deepEqual([...new Set(curator.calls)], ['getClusterCa']);
      reportRefused(
        step,
        'a curator with a certificate of the replaced cluster CA',
        'the CLI',
        'pki-untrusted',
      );
    },
  );

  await story.test(
    'clients refuse a forged API server whose certificate was issued with a copy of the old CA',
    async (step) => {
      await using server = await FalseApiServer.start(thief);
      assert.equal(await answerTo(oldTrust, server.url), 'accepted');
      assert.deepEqual(server.requests, ['/']);
      const refused = async (client: string, why: string): Promise<void> => {
        assert.match(why, /UNABLE_TO_|SELF_SIGNED_CERT|kube-other-authority/);
        assert.deepEqual(server.requests, ['/']);
        reportRefused(step, 'an API server with a certificate of the replaced CA', client, why);
      };
      for (const name of ['n1', 'n4'])
        await refused(
          `the CAs of the kubelet of ${name}`,
          await answerTo(await kubeletTrust(cluster, name), server.url),
        );
      // The diverted workspace knows no curator that could name another API server.
      const to = await divertedWorkspace(workspace, join(away, 'forged'), '127.0.0.1:1');
      await divertKubeconfig(to, server.url);
      const { code, stderr } = await bench.cli('--workspace', to, 'node', 'cordon', 'n1');
      assert.notEqual(code, 0);
      await refused('the CLI', stderr);
    },
  );

  await story.test(
    'an operator whose workspace missed the rotation switches to the new cluster CA',
    async (step) => {
      const { code, stdout, stderr } = await asAnn('node', 'ls');
      step.diagnostic(stderr);
      assert.equal(code, 0);
      assert.match(stdout, /^n1 +Healthy /m);
      assert.match(stderr, /has replaced the CA of the cluster \(generation 2/);
      assert.doesNotMatch((await asAnn('node', 'ls')).stderr, /has replaced the CA/);
    },
  );

  await story.test('a worker that was off during the rotation comes back', async () => {
    await cluster.start('n5');
    await cluster.allReady([...LEFT, 'n5'], 300);
    await eventually(
      'its curators know it again',
      120,
      () => must('node', 'ls'),
      (table) => /^n5 +Healthy /m.test(table),
    );
  });

  await story.test('forged credentials are refused at every endpoint', async (step) => {
    for (const line of await answers()) {
      const [, where = '', credential = '', answer = ''] = REFUSED.exec(line) ?? assert.fail(line);
      reportRefused(step, `${credential} with replaced keys`, where, answer);
    }
  });

  await story.test('the stolen encryption key decrypts no value in any etcd member', async (step) => {
    for (const name of ['n1', 'n2']) {
      const { all, opened, texts } = await reader.tryAll(cluster, name);
      step.diagnostic(`${name}: ${opened} of ${all} values opened`);
      assert.deepEqual([opened, texts, all >= 10], [0, '', true]);
      reportRefused(step, `the replaced encryption key on ${all} values of ${name}`, 'AES', '0 opened');
      // No remaining control plane has the stolen key on its disk. The key that each of them has decrypts every
      // value.
      const own = await EncryptionKeyThief.of(cluster, name);
      assert.equal(own.shares(reader), false, `${name} still has the old encryption key`);
      const { all: every, opened: read } = await own.tryAll(cluster, name);
      assert.ok(read === every, `${read} of ${every}`);
    }
    const secret = await first.kubectl(
      'get',
      'secret',
      '-n',
      'default',
      'unique',
      '-o',
      'jsonpath={.data.text}',
    );
    assert.equal(Buffer.from(secret, 'base64').toString(), unique);
  });

  await story.test('pods keep running and never lose the API or a watch', async (step) => {
    assert.deepEqual(await containersOf(first, LEFT), before);
    for (const name of LEFT) {
      const report = await reportOf(first, name);
      step.diagnostic(`${name}: ${JSON.stringify(report)}`);
      assert.equal(report.refused, 0, `${name}: its token was refused`);
      assert.ok(report.longestMs < PAUSE_MS, `${name}: ${report.longestMs} ms without the API`);
      assert.ok(report.relists <= MAX_RELISTS, `${name}: ${report.relists} relists`);
    }
    await allSee(3);
  });

  await story.test("the workstation's kubeconfig still works, and everything is healthy", async () => {
    await eventually(
      'the cluster is healthy',
      60,
      () => bench.cli('--workspace', workspace, 'status'),
      ({ code }) => code === 0,
    );
    await must('verify', 'n4');
  });

  const olderPods = async (): Promise<string> => {
    const { stdout } = await bench.cli('--workspace', workspace, 'doctor');
    return stdout.match(/^.* started before the CA of API servers changed.*$/gm)?.join('\n') ?? '';
  };

  await story.test(
    'doctor names the application pods that still trust the old CA of the API servers, and system pods are restarted automatically',
    async () => {
      await eventually(
        'only the pods of the app are older',
        180,
        olderPods,
        (text) => text.includes('in default started') && !text.includes('in kube-'),
      );
    },
  );

  await story.test('a new service account token and a new pod work', async () => {
    await first.kubectl('rollout', 'restart', 'daemonset', '-n', 'default', 'app');
    await eventually('no pod is older', 180, olderPods, (text) => text === '');
    for (const name of LEFT)
      await eventually(
        `a new app of ${name} asks the API`,
        120,
        () => reportOf(first, name),
        ({ good, refused, longestMs }) => good > 3 && refused === 0 && longestMs < 60_000,
      );
  });

  await story.test(
    'backups from before and after the rotation are restored, each with its own encryption key',
    async () => {
      for (const file of [early, await backup('after.backup')])
        assert.equal(await readFromBackup(bench, { workspace, file }, 'unique'), unique);
    },
  );

  await story.test(
    'the lost machine joins again as a control plane with the new keys after a reset',
    async () => {
      await cluster.start('n3');
      await cluster.sh('n3', 'install -D /dev/null /var/lib/cluster/reset/order.json');
      await cluster.try('n3', 'systemctl', 'restart', 'bootstrapper');
      await eventually(
        'the machine has ended',
        120,
        () => cluster.try('n3', 'true'),
        ({ stderr }) => /node is not running/.test(stderr),
      );
      await cluster.start('n3');
      await must('node', 'readmit', 'n3');
      const fingerprint = await cluster.fingerprint('n3');
      await eventually(
        'the owner approves the reset machine',
        180,
        () =>
          bench.cli(
            '--workspace',
            workspace,
            'node',
            'approve',
            fingerprint,
            '--name',
            'n3',
            '--roles',
            'control-plane',
          ),
        ({ code }) => code === 0,
      );
      await cluster.allReady(['n1', 'n2', 'n3', 'n4', 'n5'], 240);
      await eventually(
        'three voters',
        120,
        () => must('status'),
        (text) => /of 3 voters needed, 3 healthy/.test(text),
      );
      await eventually(
        'its API server answers',
        120,
        () => cluster.try('n3', 'kubectl', '--server', 'https://127.0.0.1:6443', 'get', '--raw', '/readyz'),
        ({ stdout }) => stdout.includes('ok'),
      );
      for (const line of await thief.atControlPlane(await cluster.address('n3'))) assert.match(line, REFUSED);
    },
  );
});
