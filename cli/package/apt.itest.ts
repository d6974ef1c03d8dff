import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join, normalize } from 'node:path';
import { createCliHarness, type CliHarness } from '../app/fake-cli.ts';

const KEY = 'ops@example.org';
const OTHER_KEY = 'other@example.org';

let cli: CliHarness;
let server: Server;
let gpg: Readonly<Record<string, string>>;
beforeEach(async () => {
  cli = await createCliHarness();
  mkdirSync(join(cli.root, 'www'));
  server = serve(join(cli.root, 'www')).listen(0, '127.0.0.1');
  await once(server, 'listening');
  gpg = { PATH: '/usr/bin:/bin', GNUPGHOME: join(cli.root, 'gpg') };
  mkdirSync(join(cli.root, 'gpg'), { mode: 0o700 });
  for (const key of [KEY, OTHER_KEY]) {
    const generate = ['--batch', '--passphrase', '', '--quick-generate-key', key, 'ed25519', 'sign'];
    execFileSync('gpg', generate, { env: gpg, stdio: 'ignore' });
  }
});
afterEach(async () => {
  execFileSync('gpgconf', ['--kill', 'all'], { env: gpg, stdio: 'ignore' });
  server.close();
  await cli[Symbol.asyncDispose]();
});

/** Any web server: files of a directory, and 404. */
function serve(directory: string): Server {
  return createServer((request, response) => {
    try {
      response.end(readFileSync(join(directory, normalize(`/${request.url ?? ''}`))));
    } catch {
      response.writeHead(404).end();
    }
  });
}

/** A package with one file. Returns its path. */
function build(name: string, version: string): string {
  const stage = join(cli.root, `stage-${name}-${version}`);
  mkdirSync(join(stage, 'DEBIAN'), { recursive: true });
  const control = { Package: name, Version: version, Architecture: 'amd64', Maintainer: `me <${KEY}>` };
  const fields = Object.entries({ ...control, Description: name }).map(
    ([key, value]) => `${key}: ${value}\n`,
  );
  writeFileSync(join(stage, 'DEBIAN/control'), fields.join(''));
  writeFileSync(join(stage, 'leaf'), version);
  const target = join(cli.root, `${name}-${version}.deb`);
  execFileSync('dpkg-deb', ['-Zgzip', '--build', stage, target], { stdio: 'ignore' });
  return target;
}

/** Runs `cluster package repo www …` as docs/machines.md says. */
async function publish(debs: readonly string[], key = KEY): Promise<void> {
  const flags = debs.flatMap((deb) => ['--deb', deb]);
  const { code, err } = await cli.run(['package', 'repo', 'www', '--sign', key, ...flags], { env: gpg });
  expect({ code, err: code === 0 ? '' : err }).toEqual({ code: 0, err: '' });
}

/** A machine with the repository in its sources, and nothing else. Its apt changes nothing of this host. */
function createMachine() {
  const root = join(cli.root, 'machine');
  for (const each of ['etc/apt/preferences.d', 'state/lists/partial', 'cache/archives/partial'])
    mkdirSync(join(root, each), { recursive: true });
  writeFileSync(join(root, 'status'), '');
  const { port } = server.address() as AddressInfo;
  copyFileSync(join(cli.root, 'www/cluster.asc'), join(root, 'cluster.asc'));
  const source = `deb [signed-by=${root}/cluster.asc] http://127.0.0.1:${port} ./\n`;
  writeFileSync(join(root, 'etc/apt/sources.list'), source);
  const options = {
    Dir: root,
    'Dir::Etc': join(root, 'etc/apt'),
    'Dir::State': join(root, 'state'),
    'Dir::State::status': join(root, 'status'),
    'Dir::Cache': join(root, 'cache'),
    'APT::Architecture': 'amd64',
    'APT::Architectures': 'amd64',
    'APT::Sandbox::User': 'root',
    'Acquire::http::Proxy': 'false',
    'Acquire::Retries': '0',
  };
  const settings = Object.entries(options).flatMap(([name, value]) => ['-o', `${name}=${value}`]);
  return async (...args: readonly string[]) => {
    const env = { PATH: '/usr/sbin:/usr/bin:/sbin:/bin', LC_ALL: 'C' };
    const run = spawn('apt-get', [...settings, ...args], { cwd: root, env });
    let text = '';
    for (const stream of [run.stdout, run.stderr])
      stream.on('data', (chunk: Buffer) => (text += chunk.toString()));
    const [code] = (await once(run, 'close')) as [number | null];
    return { code, text, root };
  };
}

/** Changes one byte in the middle of a file. */
function damage(path: string): void {
  const bytes = readFileSync(path);
  bytes[bytes.length >> 1] = (bytes[bytes.length >> 1] ?? 0) ^ 1;
  writeFileSync(path, bytes);
}

describe('apt and a repository of cluster package repo', () => {
  test('apt verifies it, downloads its packages and finds newer ones', async () => {
    const first = build('tea', '1.0');
    await publish([first, build('cup', '1.0')]);
    const apt = createMachine();
    expect(await apt('update')).toMatchObject({
      code: 0,
      text: expect.not.stringMatching(/^[WE]:/m) as unknown,
    });
    const { code, root } = await apt('download', 'tea');
    expect(code).toBe(0);
    expect(readFileSync(join(root, 'tea_1.0_amd64.deb'))).toEqual(readFileSync(first));
    await publish([build('tea', '1.1')]);
    expect((await apt('update')).code).toBe(0);
    const { text: planned } = await apt('--simulate', 'install', 'tea', 'cup');
    expect(planned).toMatch(/^Inst tea \(1\.1 /m);
    expect(planned).toMatch(/^Inst cup \(1\.0 /m);
  }, 60_000);

  test('apt refuses a damaged package, a changed index, and a repository that another key signed', async () => {
    await publish([build('tea', '1.0')]);
    const apt = createMachine();
    expect((await apt('update')).code).toBe(0);
    damage(join(cli.root, 'www/pool/tea_1.0_amd64.deb'));
    expect(await apt('download', 'tea')).toMatchObject({
      text: expect.stringMatching(/Hash Sum mismatch/) as unknown,
    });
    damage(join(cli.root, 'www/pool/tea_1.0_amd64.deb')); // once more: it is as before
    await publish([build('tea', '1.1')], OTHER_KEY);
    expect(await apt('update')).toMatchObject({ text: expect.stringMatching(/NO_PUBKEY/) as unknown });
    await publish([]);
    damage(join(cli.root, 'www/Packages.gz'));
    damage(join(cli.root, 'www/Packages'));
    expect((await apt('update')).code).not.toBe(0);
    await publish([]);
    damage(join(cli.root, 'www/InRelease'));
    expect((await apt('update')).text).toMatch(/^[WE]: /m);
    expect((await apt('--simulate', 'install', 'tea')).text).not.toMatch(/^Inst tea \(1\.1 /m);
  }, 60_000);
});
