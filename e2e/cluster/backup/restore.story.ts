import assert from 'node:assert/strict';
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { addMachine } from '../harness/add-machine.ts';
import { etcdctlArgv, eventually } from '../harness/node-shell.ts';
import { createHarness } from '../../machines/harness.ts';
import { cliJson, reprovision, StoryCluster } from '../harness/story-cluster.ts';
import { contentHash, createObjects, resetOnMachine, staleOn } from './restored-objects.ts';

const NAME = 'restore';
const DRILL = 'restore-drill';
const OBJECTS = 300;
/** A further name of the API servers, in cluster.yaml. */
const NAME_OF_API = 'api.restored.example';
const SECRET = 'a-secret-that-survives';
/** The revisions of a restored etcd are higher than this number. */
const BUMP = 1_000_000_000;
const EXIT_PRECONDITION = 5;
const OWNER_KEY = 'owner-key.pem';

interface Restored {
  readonly clusterId: string;
  readonly epoch: number;
  readonly nodeName: string;
}

interface Drilled {
  readonly clusterId: string;
  readonly epoch: number;
  readonly objects: readonly {
    readonly resource: string;
    readonly backup: number;
    readonly restored: number;
  }[];
  readonly charts: readonly { readonly name: string; readonly revision: number; readonly status: string }[];
}

await test('a cluster is restored from one file onto a machine that was never part of it', async (story) => {
  await using bench = await createHarness();
  const cluster = new StoryCluster(bench, NAME);
  const up = ['mini', 'up', '--name', NAME, '--control-planes', '1', '--workers', '1', '--demo'] as const;
  await bench.must(...up, '--nodes-only');
  await cluster.edit((yaml) => {
    assert.match(yaml, /extraSans: \[\]/);
    return yaml.replace('extraSans: []', `extraSans: [${NAME_OF_API}]`);
  });
  await bench.must(...up);
  const workspace = await cluster.workspace();
  const kept = await mkdtemp(join(tmpdir(), 'cluster-kept-'));
  await using _kept = { [Symbol.asyncDispose]: () => rm(kept, { recursive: true, force: true }) };
  const file = join(kept, 'restored.backup');
  const cli = (...args: readonly string[]) => bench.cli('--workspace', workspace, ...args);
  await createObjects(cluster, 'n1', OBJECTS);
  await cluster.sh('n1', `kubectl create secret generic kept --from-literal=text=${SECRET}`);
  // A restore must not replace what operators changed in the objects that kubeadm had created.
  const changed = 'kubectl -n kube-system set resources deployment coredns --limits=memory=200Mi >/dev/null';
  await cluster.sh('n1', changed);
  const before = await contentHash(cluster, 'n1', OBJECTS);
  await bench.must('--workspace', workspace, 'backup', 'schedule', 'set', '--every', '24h');
  const revision = Number(
    await cluster.sh('n1', `kubectl get configmap o1 -o jsonpath='{.metadata.resourceVersion}'`),
  );
  const endpointsBefore = (await staleOn(cluster, 'n1', ['n1', 'n2'])).join('\n');
  const create = ['--workspace', workspace, 'backup', 'create', '--to', file];
  const { clusterId } = await cliJson<{ clusterId: string }>(bench, ...create);
  await cluster.sh('n1', 'kubectl create configmap written-after-the-backup');

  await story.test(
    'a restore drill (mini restore) that was killed leaves a local machine, which the next drill replaces',
    async () => {
      const drill = [
        'mini',
        'restore',
        '--name',
        DRILL,
        '--from',
        file,
        '--work-dir',
        join(kept, 'decrypted'),
      ];
      const child = bench.startCli('--workspace', workspace, ...drill);
      await eventually(
        'the drill has a machine',
        60,
        () => bench.must('mini', 'ls'),
        (text) => text.includes(DRILL),
      );
      child.kill('SIGKILL');
      const result = await cliJson<Drilled>(bench, '--workspace', workspace, ...drill);
      const configmaps = result.objects.find(({ resource }) => resource === 'configmaps');
      assert.ok((configmaps?.backup ?? 0) >= OBJECTS, JSON.stringify(result.objects));
      assert.deepEqual(
        result.charts.map(({ name, revision, status }) => `${name} ${revision} ${status}`).toSorted(),
        ['flannel 1 deployed', 'hello 1 deployed'],
      );
      assert.ok(result.objects.every(({ backup, restored }) => backup === restored));
      assert.deepEqual([result.clusterId, result.epoch], [clusterId, 2]);
      assert.doesNotMatch(await bench.must('mini', 'ls'), new RegExp(DRILL));
      assert.match(await cluster.readiness(), /n1=True/); // The drill did not affect the running cluster.
    },
  );

  const local = await bench.cluster(NAME);
  await addMachine(bench, local, { name: 'n3', like: 'n1', joinEndpoints: [] });
  const fingerprint = await cluster.fingerprint('n3');
  const at = ['--node', await cluster.address('n3'), '--fingerprint', fingerprint, '--yes'];

  await story.test('a running cluster is not restored a second time', async () => {
    const { code, stderr } = await cli('restore', file, ...at);
    assert.equal(code, EXIT_PRECONDITION, stderr);
    assert.match(stderr, /backup-cluster-alive/);
    assert.match(await cluster.readiness(), /n1=True/);
  });

  for (const machine of ['n1', 'n2']) await cluster.cutPower(machine);
  // The only remains of the cluster: the backup file and the owner key.
  for (const name of await readdir(workspace))
    if (name !== OWNER_KEY) await rm(join(workspace, name), { recursive: true });
  at.push('--owner-key', join(workspace, OWNER_KEY));

  await story.test('a directory with nothing but the owner key provisions the new machine', async () => {
    const out = join(kept, 'provisioning.json');
    await bench.must('--workspace', workspace, 'provisioning', 'generate', '--no-tpm', '--out', out);
    const ownerKeysIn = (text: string) => (JSON.parse(text) as { readonly ownerKeys: unknown }).ownerKeys;
    const provisioned = await cluster.run('n3', 'cat', '/etc/cluster/provisioning.json');
    assert.deepEqual(ownerKeysIn(await readFile(out, 'utf8')), ownerKeysIn(provisioned));
  });

  await story.test('a changed file is refused before the machine is touched', async () => {
    const bytes = await readFile(file);
    const middle = bytes.length >> 1;
    bytes[middle] = (bytes[middle] ?? 0) ^ 1;
    await writeFile(`${file}.changed`, bytes);
    const { code, stderr } = await cli('restore', `${file}.changed`, ...at);
    assert.notEqual(code, 0);
    assert.match(stderr, /backup-(signature-invalid|malformed|content-invalid)/);
    assert.equal(await cluster.sh('n3', 'ls /var/lib/cluster/init/request.json 2>/dev/null || true'), '');
    assert.deepEqual(await readdir(workspace), [OWNER_KEY]);
  });

  await story.test(
    'the command is killed and the machine loses its power while it restores the databases',
    async () => {
      const child = bench.startCli('--workspace', workspace, 'restore', file, ...at);
      const data = 'ls -d /var/lib/cluster/etcd-*/restored /var/lib/cluster/etcd-*/data 2>/dev/null || true';
      await eventually(
        'the machine restores a database',
        90,
        () => cluster.sh('n3', data),
        (text) => text !== '',
      );
      child.kill('SIGKILL');
      await cluster.cutPower('n3');
      await cluster.start('n3');
    },
  );

  await story.test(
    'the same command continues, and the cluster is restored with the same ID and a new epoch',
    async () => {
      const restored = await cliJson<Restored>(bench, '--workspace', workspace, 'restore', file, ...at);
      assert.deepEqual([restored.clusterId, restored.epoch, restored.nodeName], [clusterId, 2, 'n3']);
      await cluster.allReady(['n3'], 120, 'n3');
    },
  );

  await story.test('no pod and no endpoint is on a machine that is gone', async () => {
    assert.match(endpointsBefore, /^endpointslices .* n[12]$/m);
    assert.deepEqual(await staleOn(cluster, 'n3', ['n1', 'n2']), []);
  });

  await story.test(
    'every object of the backup is restored unchanged, and objects that were created after the backup are gone',
    async () => {
      assert.equal(await contentHash(cluster, 'n3', OBJECTS), before);
      const secret = await cluster.sh('n3', `kubectl get secret kept -o jsonpath='{.data.text}' | base64 -d`);
      assert.equal(secret, SECRET);
      const late = await cluster.sh('n3', 'kubectl get configmap written-after-the-backup 2>&1 || true');
      assert.match(late, /not found/);
    },
  );

  await story.test(
    'revisions of both etcds are higher than before, so every watcher lists again',
    async () => {
      const list = await cluster.sh('n3', `kubectl get --raw /api/v1/namespaces/default/configmaps?limit=1`);
      const now = Number(
        (JSON.parse(list) as { metadata: { resourceVersion: string } }).metadata.resourceVersion,
      );
      assert.ok(now > BUMP, String(now));
      const watch = `kubectl get --raw '/api/v1/namespaces/default/configmaps?watch=1&timeoutSeconds=5&resourceVersion=${revision}' 2>&1 || true`;
      assert.match(await cluster.sh('n3', watch), /Expired|too old|Gone/i);
      // The etcd with the records of the cluster: its curators and agents watch too.
      for (const user of ['root', 'kubernetes-root'] as const) {
        const argv = etcdctlArgv(user);
        const read = await cluster.run('n3', ...argv, 'get', '/none', '--write-out', 'json');
        const { header } = JSON.parse(read) as { readonly header: { readonly revision: number } };
        assert.ok(header.revision > BUMP, `${user}: ${header.revision}`);
        const old = await cluster.try('n3', ...argv, 'get', '/none', '--rev', String(BUMP));
        assert.match(old.stderr, /required revision has been compacted/, user);
      }
    },
  );

  await story.test('the application runs on the new machine', async () => {
    await eventually(
      'the sample application is available',
      180,
      () =>
        cluster.sh(
          'n3',
          `kubectl get pods -A -l app.kubernetes.io/name=hello -o wide || kubectl get pods -A -o wide`,
        ),
      (text) => /hello-\S+ +1\/1 +Running.* n3 /.test(text),
    );
    const nodes = await cluster.sh('n3', 'kubectl get nodes -o name');
    assert.equal(nodes, 'node/n3');
  });

  await story.test('the API server has the names of cluster.yaml, as before', async () => {
    const certificate = 'openssl x509 -in /etc/kubernetes/pki/apiserver.crt -noout -ext subjectAltName';
    assert.match(await cluster.sh('n3', certificate), new RegExp(`DNS:${NAME_OF_API}\\b`));
  });

  await story.test('the doctor says that the schedule of backups has to be signed again', async () => {
    const { stdout } = await cli('doctor', '--output', 'json');
    assert.match(stdout, /doctor-backup-schedule/);
    assert.match(stdout, /control plane n3 takes no backups, because the schedule does not name it/);
    await bench.must('--workspace', workspace, 'backup', 'schedule', 'set', '--every', '24h', '--yes');
    await eventually(
      'a backup of the restored cluster',
      90,
      () => bench.must('--workspace', workspace, 'backup', 'ls'),
      (text) => /CONTENT-PROVED/.test(text),
    );
  });

  await story.test('no secret of the backup is left on the machine or at the workstation', async () => {
    const request = await cluster.sh('n3', 'cat /var/lib/cluster/init/request.json');
    assert.doesNotMatch(request, /PRIVATE KEY/);
    assert.doesNotMatch(await readFile(join(workspace, 'state.json'), 'utf8'), /cluster-ca\.key/);
  });

  await story.test('an old machine is refused until an owner readmits it, and then joins', async () => {
    const removed = await bench.must('--workspace', workspace, 'node', 'ls', '--removed');
    assert.match(removed, / n1 /);
    assert.match(removed, / n2 /);
    // The old worker is reset on the machine itself and pointed to the restored cluster. Its TPM is the same.
    await cluster.start('n2');
    await resetOnMachine(cluster, 'n2');
    const endpoint = `${await cluster.address('n3')}:9090`;
    await reprovision(cluster, 'n2', ({ cluster: _, ...rest }) => ({ ...rest, joinEndpoints: [endpoint] }));
    await eventually(
      'the machine is refused because it was removed',
      90,
      () => bench.must('--workspace', workspace, 'node', 'ls', '--joins', '--output', 'json'),
      (text) => text.includes('join-decommissioned'),
    );
    // The inventory in the configuration lists the machine, so the machine waits only for its readmission.
    await bench.must('--workspace', workspace, 'node', 'readmit', 'n2');
    await cluster.allReady(['n2', 'n3'], 180, 'n3');
  });

  await story.test('the same command again changes nothing', async () => {
    const again = await cliJson<Restored & { unchanged: boolean }>(
      bench,
      '--workspace',
      workspace,
      'restore',
      file,
      ...at,
    );
    assert.equal(again.unchanged, true);
  });
});
