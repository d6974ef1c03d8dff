import assert from 'node:assert/strict';
import { mkdir, readdir, readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import { createHarness } from '../../machines/harness.ts';
import { cliJson, StoryCluster } from '../harness/story-cluster.ts';

const NAME = 'backup';
const OBJECTS = 100;
const EXIT_UNHEALTHY = 10;
const EXIT_WARNINGS = 11;
const SECRET = 'a-secret-that-only-the-owner-may-read';

interface Created {
  readonly clusterId: string;
  readonly epoch: number;
  readonly revisions: { readonly state: string; readonly kubernetes: string };
  readonly sha256: string;
}

interface Verified extends Created {
  readonly status: string;
  readonly proof: Readonly<
    Record<'state' | 'kubernetes', { readonly revision: number; readonly isHashCompared: boolean }>
  >;
}

interface Copies {
  readonly failure?: { readonly code: string };
}

interface KeptBackups {
  readonly backups: readonly KeptBackup[];
}

interface KeptBackup {
  readonly name: string;
  readonly seq: number;
  readonly node: string;
  readonly proof: string;
  readonly proofPlace?: string;
  readonly sha256: string;
}

await test('an owner takes a backup of a running cluster and proves that it can be restored', async (story) => {
  await using bench = await createHarness();
  const cluster = new StoryCluster(bench, NAME);
  await bench.must('mini', 'up', '--name', NAME, '--control-planes', '1', '--workers', '0');
  const workspace = await cluster.workspace();
  const file = join(workspace, 'first.backup');
  const cli = (...args: readonly string[]) => bench.cli('--workspace', workspace, ...args);
  await cluster.sh(
    'n1',
    `for i in $(seq ${OBJECTS}); do printf 'apiVersion: v1\\nkind: ConfigMap\\nmetadata: {name: o%s}\\ndata: {n: "%s"}\\n---\\n' $i $i; done | kubectl apply -f - >/dev/null
     kubectl create secret generic kept --from-literal=text=${SECRET}`,
  );

  await story.test(
    'the control plane takes the backup, and the workstation verifies it while receiving it',
    async () => {
      const created = await cliJson<Created>(
        bench,
        ...['--workspace', workspace, 'backup', 'create', '--to', file],
      );
      assert.equal(created.epoch, 1);
      assert.ok(BigInt(created.revisions.kubernetes) > BigInt(OBJECTS));
      assert.equal((await stat(file)).mode & 0o777, 0o600);
      const bytes = await readFile(file);
      assert.equal(bytes.includes(SECRET), false);
      assert.equal(bytes.includes('PRIVATE KEY'), false);
    },
  );

  await story.test(
    'backup verify restores both databases and gets the same hashes as the control plane',
    async () => {
      const run = await cli('backup', 'verify', file, '--output', 'json');
      assert.equal(run.code, 0, run.stdout + run.stderr);
      const last = JSON.parse(run.stdout.trim().split('\n').at(-1) ?? '') as { readonly data: Verified };
      const verified = last.data;
      assert.equal(verified.status, 'FILE-PROVED');
      for (const name of ['state', 'kubernetes'] as const) {
        assert.ok(verified.proof[name].isHashCompared, name);
        assert.ok(BigInt(verified.proof[name].revision) >= BigInt(verified.revisions[name]), name);
      }
    },
  );

  await story.test(
    'backup create --into adds a backup to a directory, proves that it can be restored, and keeps only the newest two',
    async () => {
      const ring = join(workspace, 'ring');
      await mkdir(ring);
      const decrypted = join(workspace, 'decrypted');
      const into = ['backup', 'create', '--into', ring, '--keep', '2', '--prove', '--work-dir', decrypted];
      const taken: string[] = [];
      for (let run = 0; run < 3; run++) {
        const made = await cliJson<{ file: string; deleted: string[] }>(
          bench,
          '--workspace',
          workspace,
          ...into,
        );
        taken.push(made.file);
        assert.deepEqual(made.deleted, run === 2 ? [taken[0]] : []);
      }
      assert.deepEqual(await readdir(decrypted), []); // it was used, and is empty again
      const { backups } = await cliJson<{
        readonly backups: readonly { readonly file: string; readonly proof: string }[];
      }>(bench, ...['--workspace', workspace, 'backup', 'ls', ring]);
      assert.deepEqual(
        backups.map(({ file, proof }) => [join(ring, file), proof]),
        taken
          .slice(1)
          .toReversed()
          .map((file) => [file, 'FILE-PROVED']),
      );
      const away = await cli('backup', 'create', '--into', join(workspace, 'away'));
      assert.match(away.stderr, /backup-not-found/);
    },
  );

  await story.test(
    'control planes take backups on a signed schedule, and prove the content of each backup',
    async () => {
      const inWorkspace = ['--workspace', workspace, 'backup'];
      const json = <T>(...args: readonly string[]) => cliJson<T>(bench, ...inWorkspace, ...args);
      const proved = async (number: number): Promise<readonly KeptBackup[]> => {
        for (let tries = 0; tries < 60; tries++) {
          const { backups: all } = await json<KeptBackups>('ls');
          const good = all.filter(({ proof }) => proof === 'CONTENT-PROVED');
          if (Math.max(0, ...good.map(({ seq }) => seq)) >= number) return good;
          await setTimeout(5_000);
        }
        return assert.fail(JSON.stringify(await json<unknown>('schedule', 'show')));
      };
      // No file system is mounted on the directory for copies, so a copy would be on the same disk as the original.
      // The agent must refuse such copies.
      await cluster.sh('n1', 'mkdir /mnt/backups');
      await json('schedule', 'set', '--every', '1m', '--keep', '2', '--copy-to', '/mnt/backups');
      const [first] = await proved(1);
      assert.equal(first?.node, 'n1');
      // After the proof the node has only the encrypted backup and its proof: no decrypted data is left, and the etcd of the proof
      // does not run.
      const left = await cluster.sh(
        'n1',
        'find /var/lib/cluster/backups /var/lib/cluster/etcd-*/throwaway -type f 2>/dev/null | sort; systemctl is-active cluster-etcd-proof.service || true',
      );
      assert.match(left, /^\S*kept\/[0-9]{8}-\S*\.backup\n\S*\.backup\.proved\ninactive$/);
      assert.doesNotMatch(left, /work|throwaway/);
      // The state disk of this machine is not encrypted, so the data of the proof was in memory.
      assert.equal((await proved(1))[0]?.proofPlace, 'memory');
      const mounts = await cluster.sh(
        'n1',
        'grep -c backup-proof /proc/1/mountinfo || true; ls /run/cluster',
      );
      assert.match(mounts, /^0\n/);
      assert.doesNotMatch(mounts, /backup-proof/);
      // The tests below count the backups in the workspace.
      await mkdir(join(workspace, 'fetched'));
      const fetched = join(workspace, 'fetched', 'newest.backup');
      const file = await json<Created>('fetch', '--to', fetched);
      assert.ok((await proved(1)).some(({ sha256 }) => sha256 === file.sha256));
      const verified = await json<Verified>('verify', fetched);
      assert.equal(verified.status, 'FILE-PROVED');

      // After a kill at any time, the agent takes the backup with the next number. Only the newest two backups are
      // kept.
      await cluster.sh('n1', 'systemctl kill --signal=SIGKILL bootstrapper.service');
      const later = await proved(3);
      assert.ok(later.length <= 2, JSON.stringify(later));
      const files = await cluster.sh('n1', 'ls /var/lib/cluster/backups/kept/*.backup');
      for (const { name } of later) assert.ok(files.includes(name), files);

      const copiesOf = async () =>
        (await json<{ schedule: { copies: readonly Copies[] } }>('schedule', 'show')).schedule.copies[0];
      assert.equal((await copiesOf())?.failure?.code, 'backup-node-copy-target');
      assert.equal(await cluster.sh('n1', 'ls /mnt/backups'), '');
      const doctor = await cli('doctor');
      assert.match(doctor.stdout, /\[doctor-backup-copies\]/);
      await cluster.sh('n1', 'mount -t tmpfs -o size=256m tmpfs /mnt/backups');
      for (let tries = 0; (await copiesOf())?.failure !== undefined; tries++) {
        assert.ok(tries < 24, JSON.stringify(await copiesOf()));
        await setTimeout(5_000);
      }
      const compared = await cluster.sh(
        'n1',
        'cd /mnt/backups/*/node-*/ && for name in *.backup; do cmp $name /var/lib/cluster/backups/kept/$name && echo same; done',
      );
      assert.match(compared, /^same(\nsame)?$/);

      const shown = await json<{ schedule: { isVerified: boolean; failure: unknown } }>('schedule', 'show');
      assert.deepEqual([shown.schedule.isVerified, shown.schedule.failure], [true, null]);
      await json('schedule', 'stop', '--yes');
      assert.ok((await json<KeptBackups>('ls', '--node', 'n1')).backups.length > 0);
    },
  );

  await story.test(
    'backup show reads the header of a backup without a workspace, and backup ls lists the backup as good',
    async () => {
      const shown = await cliJson<Created>(bench, 'backup', 'show', file);
      assert.ok(BigInt(shown.revisions.state) > 0n);
      const { backups } = await cliJson<{ readonly backups: readonly { readonly status: string }[] }>(
        bench,
        ...['--workspace', workspace, 'backup', 'ls', workspace],
      );
      assert.deepEqual(
        backups.map(({ status }) => status),
        ['good'],
      );
    },
  );

  await story.test(
    'a changed backup file is refused, and backup delete refuses to delete the last good backup',
    async () => {
      const bytes = await readFile(file);
      const middle = bytes.length >> 1;
      bytes[middle] = (bytes[middle] ?? 0) ^ 1;
      const damaged = join(workspace, 'damaged.backup');
      await writeFile(damaged, bytes);
      const refused = await cli('backup', 'verify', damaged);
      assert.notEqual(refused.code, 0);
      assert.match(refused.stderr, /backup-signature-invalid/);
      const kept = await cli('backup', 'delete', file, '--yes');
      assert.match(kept.stderr, /backup-last-good/);
      assert.equal((await cli('backup', 'delete', damaged, '--yes')).code, 0);
      assert.equal((await stat(file)).isFile(), true);
    },
  );

  await story.test('a support bundle has logs and states, and no secret of the cluster', async () => {
    const planted = 'planted-4711-secret';
    await cluster.sh(
      'n1',
      `kubectl create configmap planted --from-literal=text=${planted}
       kubectl run planted --image=example.invalid/none --env=TEXT=${planted} --annotations=text=${planted} -- ${planted}`,
    );
    const bundle = join(workspace, 'blue.support');
    await writeFile(`${bundle}.partial`, 'of an interrupted call'.repeat(1_000_000));
    const made = await cliJson<{ readonly missing: readonly unknown[] }>(
      bench,
      ...['--workspace', workspace, 'support', 'bundle', '--to', bundle],
    );
    assert.deepEqual(made.missing, []);
    const directory = join(workspace, 'opened');
    const opened = await cli('support', 'open', bundle, '--to', directory);
    assert.ok([0, EXIT_UNHEALTHY, EXIT_WARNINGS].includes(opened.code), opened.stdout + opened.stderr);
    const names = (await readdir(directory, { recursive: true, withFileTypes: true })).filter((entry) =>
      entry.isFile(),
    );
    const texts = new Map<string, string>();
    for (const { parentPath, name } of names) {
      const path = join(parentPath, name);
      texts.set(path.slice(directory.length + 1), await readFile(path, 'utf8'));
    }
    for (const [path, text] of texts)
      for (const secret of [planted, SECRET, 'PRIVATE KEY'])
        assert.equal(text.includes(secret), false, `${path}: ${secret}`);
    for (const path of [
      'nodes/n1/agent.log',
      'nodes/n1/kubelet.log',
      'nodes/n1/cluster-etcd-state.log',
      'nodes/n1/metrics.txt',
    ])
      assert.ok((texts.get(path)?.length ?? 0) > 500, `${path}: ${texts.get(path)}`);
    assert.match(texts.get('kubernetes/pods.json') ?? '', /"planted"/);
  });
});
