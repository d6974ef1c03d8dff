import assert from 'node:assert/strict';
import { chmod, cp, mkdir, open, readdir, readFile, stat, symlink } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { env } from 'node:process';
import { test } from 'node:test';
import { DEFAULT_KUBERNETES_VERSION } from '../../../internal/bundle/index.ts';
import { createHarness, type Harness } from '../../machines/harness.ts';
import { eventually, machineWithoutCluster } from '../harness/node-shell.ts';
import { waitForExit, waitForOutput } from '../harness/program-output.ts';

const STORE = '/var/lib/cluster/store';

await test('the CLI uploads all components to a machine with an empty store and no internet', async (story) => {
  await using bench = await createHarness({ ownCache: true });
  await shareCache(bench);
  const { address, fingerprint, workspace, node } = await machineWithoutCluster(
    bench,
    'empty',
    '--empty-store',
  );
  const init = ['--workspace', workspace, 'init', '--node', address, '--fingerprint', fingerprint] as const;
  const storedBytes = async (): Promise<number> =>
    Number((await node.run('sh', '-c', `du -sb ${STORE} 2>/dev/null | cut -f1 || echo 0`)) || 0);

  await story.test('the machine starts with no components and no internet', async () => {
    assert.ok((await storedBytes()) < 1024 * 1024);
    const routes = await node.run('ip', '-4', 'route', 'get', '1.1.1.1');
    assert.match(routes, /via 198\.18\.\d+\.254/);
  });

  await story.test(
    'a component with a flipped byte is refused with an error that names it, and the machine gets no node lock',
    async () => {
      const { name, path } = await largestImage(bench);
      await flipByte(path);
      const refused = await bench.cli(...init);
      assert.notEqual(refused.code, 0);
      assert.match(refused.stderr, new RegExp(name));
      assert.equal(await node.exitCode('test', '-e', '/var/lib/cluster/enrolment/lock.json'), 1);
      await flipByte(path);
    },
  );

  await story.test('an interrupted upload resumes', async () => {
    const cli = bench.startCli(...init);
    const end = waitForExit(cli);
    await waitForOutput(cli, /Uploading components/);
    await eventually('more than 100 MiB have arrived', 60, storedBytes, (bytes) => bytes > 100 * 1024 * 1024);
    cli.kill('SIGKILL');
    await end;
    const before = await storedBytes();
    const done = await bench.cli(...init);
    assert.equal(done.code, 0, done.stderr);
    const uploaded = /Uploaded \d+ components \(([\d.]+) MiB\)/.exec(done.stderr)?.[1];
    assert.ok(uploaded !== undefined, done.stderr);
    const all = await storedBytes();
    assert.ok(
      Number(uploaded) * 1024 * 1024 < all - before / 2,
      `${uploaded} MiB after ${before} of ${all} bytes were there`,
    );
  });

  await story.test('the node runs the components that were uploaded', async () => {
    await eventually(
      'the node is Ready',
      60,
      () => node.kubectl('get', 'nodes', '--no-headers'),
      (line) => /^n1 +Ready /.test(line),
    );
  });
});

/** Creates a copy of the bundle that the story may damage. Files that are only read are shared. */
async function shareCache(bench: Harness): Promise<void> {
  const shared = join(env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache'), 'cluster');
  const own = join(bench.directory, 'cache/cluster');
  await mkdir(own, { recursive: true });
  for (const directory of ['rootfs', 'layers']) await symlink(join(shared, directory), join(own, directory));
  for (const directory of ['bundles', 'blobs'])
    await cp(join(shared, directory), join(own, directory), { recursive: true });
}

async function largestImage(bench: Harness): Promise<{ name: string; path: string }> {
  const own = join(bench.directory, 'cache/cluster');
  const [manifestName] = (await readdir(join(own, 'bundles'))).filter((name) =>
    name.includes(DEFAULT_KUBERNETES_VERSION),
  );
  const manifest = JSON.parse(await readFile(join(own, 'bundles', manifestName ?? ''), 'utf8')) as {
    components: { name: string; sha256: string; sizeBytes: number; scope: string }[];
  };
  const [largest] = manifest.components
    .filter(({ scope }) => scope === 'controlplane')
    .sort((a, b) => b.sizeBytes - a.sizeBytes);
  assert.ok(largest);
  return { name: largest.name, path: join(own, 'blobs/sha256', largest.sha256) };
}

async function flipByte(path: string): Promise<void> {
  const { size } = await stat(path);
  await chmod(path, 0o644);
  await using file = await open(path, 'r+');
  const { buffer } = await file.read(Buffer.alloc(1), 0, 1, size >> 1);
  await file.write(Buffer.from([(buffer[0] ?? 0) ^ 1]), 0, 1, size >> 1);
}
