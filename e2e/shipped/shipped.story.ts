import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { execPath } from 'node:process';
import { test } from 'node:test';
import { gunzipSync } from 'node:zlib';

const PROJECT = join(import.meta.dirname, '../..');
const DIST = join(PROJECT, 'dist');

/** Runs a program in an environment without Node, npm or any other program in the PATH. */
function alone(directory: string, file: string, ...args: readonly string[]): { code: number; text: string } {
  try {
    const env = { HOME: directory, PATH: join(directory, 'nothing') };
    const text = execFileSync(file, args, { cwd: directory, env, encoding: 'utf8', stdio: 'pipe' });
    return { code: 0, text };
  } catch (error) {
    const { status, stdout, stderr } = error as { status: number; stdout: string; stderr: string };
    return { code: status, text: `${stdout}${stderr}` };
  }
}

await test('the shipped programs run on a machine without npm', async (story) => {
  const directory = await mkdtemp(join(tmpdir(), 'cluster-shipped-'));
  try {
    execFileSync(execPath, [join(PROJECT, '.ci/build.ts'), '--sea'], { stdio: 'pipe' });
    const { version } = JSON.parse(await readFile(join(PROJECT, 'package.json'), 'utf8')) as {
      version: string;
    };
    const built = (pattern: RegExp): Promise<string> => newest(DIST, pattern);

    await story.test('the single executable of the CLI runs', async () => {
      const program = await built(/^cluster-linux-/);
      assert.deepEqual(alone(directory, program, '--version'), { code: 0, text: `${version}\n` });
      assert.equal(alone(directory, program, 'config', 'generate').code, 0);
      assert.match(alone(directory, program, 'config', 'validate').text, /is valid/);
      assert.deepEqual((await stat(join(directory, 'owner-key.pem'))).mode & 0o777, 0o600);
      assert.ok(JSON.parse(alone(directory, program, 'config', 'schema').text));
      const config = join(directory, 'cluster.yaml');
      const good = await readFile(config, 'utf8');
      await writeFile(config, good.replace('runsWorkloads: true', 'runsWorkloads: maybe'));
      const invalid = alone(directory, program, 'config', 'validate');
      assert.equal(invalid.code, 2);
      assert.match(
        invalid.text,
        /cluster\.yaml:11:18: firstNode\.runsWorkloads is "maybe"; it must be a boolean/,
      );
      await writeFile(config, good);
      assert.match(alone(directory, program, 'help', 'exit-codes').text, /unreachable/);
      assert.equal(alone(directory, program, 'status').code, 5, 'there is no cluster yet');
    });

    await story.test('the single executable of the agent runs', async () => {
      // Without a provisioning file the agent reports what is missing and starts nothing. The test gives it a private
      // /run, so that the agent does not see the /run of the host.
      const inside = `/bin/mount -t tmpfs none /run && exec ${await built(/^bootstrapper-linux-/)}`;
      const { code, text } = alone(directory, '/usr/bin/unshare', '--mount', '/bin/sh', '-c', inside);
      assert.equal(code, 2);
      assert.match(text, /config-provisioning-invalid/);
    });

    await story.test('the CLI from its Debian package runs', async () => {
      const root = join(directory, 'root');
      execFileSync('dpkg-deb', ['--extract', await built(/^cluster_.*\.deb$/), root]);
      const lib = join(root, 'usr/lib/cluster-cli');
      const { code, text } = alone(directory, join(lib, 'node'), join(lib, 'main.mjs'), 'config', 'validate');
      assert.deepEqual([code, /is valid/.test(text)], [0, true], text);
    });

    await story.test('the Debian package of the CLI has its manual pages', async () => {
      const page = join(directory, 'root/usr/share/man/man1/cluster-node-approve.1.gz');
      assert.match(gunzipSync(await readFile(page)).toString(), /^\.TH "CLUSTER\\-NODE\\-APPROVE" "1"/);
    });

    await story.test("the agent's Debian package has its unit, Node and its programs", async () => {
      const listed = execFileSync('dpkg-deb', ['--contents', await built(/^cluster-agent_.*\.deb$/)], {
        encoding: 'utf8',
      });
      for (const name of [
        'bootstrapper.service',
        '/node',
        'bootstrapper.mjs',
        'joinservice.mjs',
        'apilb.mjs',
      ])
        assert.ok(listed.includes(name), name);
    });
  } finally {
    await rm(directory, { recursive: true });
  }
});

async function newest(directory: string, pattern: RegExp): Promise<string> {
  const [name] = (await readdir(directory)).filter((each) => pattern.test(each)).sort();
  assert.ok(name, `${pattern} was built`);
  return join(directory, name);
}
