import { spawn } from 'node:child_process';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';

const MAIN = new URL('../main.ts', import.meta.url).pathname;
const OLD = 'planted old passphrase';
const NEW = 'planted new passphrase';
const WRONG = 'planted wrong passphrase';
let workspace = '';

beforeEach(async () => {
  workspace = await mkdtemp(join(tmpdir(), 'cluster-passphrase-'));
});
afterEach(() => rm(workspace, { recursive: true }));

interface Run {
  readonly code: number | null;
  readonly out: string;
  readonly all: string;
}

/** Runs the program; descriptors 3 and 4 are pipes with these lines. */
async function cluster(args: readonly string[], lines: readonly string[] = []): Promise<Run> {
  const child = spawn(process.execPath, [MAIN, '-w', workspace, ...args], {
    stdio: ['ignore', 'pipe', 'pipe', ...lines.map(() => 'pipe' as const)],
  });
  for (const [at, line] of lines.entries()) {
    const stream = child.stdio[3 + at] as NodeJS.WritableStream | undefined;
    stream?.on('error', () => undefined); // the program may end without reading it
    stream?.end(`${line}\n`);
  }
  let [out, all] = ['', ''];
  child.stdout?.on('data', (chunk: Buffer) => ([out, all] = [out + String(chunk), all + String(chunk)]));
  child.stderr?.on('data', (chunk: Buffer) => (all += String(chunk)));
  const code = await new Promise<number | null>((resolve) => child.on('close', resolve));
  return { code, out, all };
}

/** Runs a shell command at a terminal of its own, answers each prompt with the next line, and returns all that was shown. */
async function atTerminal(args: string, answers: readonly string[]): Promise<Run> {
  const command = `${process.execPath} ${MAIN} -w ${workspace} ${args}`;
  const child = spawn('script', ['-qec', command, '/dev/null'], {
    env: { ...process.env, TERM: 'xterm' },
    timeout: 30_000,
  });
  let all = '';
  let given = 0;
  child.stdout.on('data', (chunk: Buffer) => {
    all += String(chunk);
    // After each key, the prompt prints the question again, behind a question mark. An answered question ends with a
    // check mark.
    const current = all.split('✔');
    const isAsked = /\?\S* \S*(?:Passphrase of|New passphrase|The same passphrase)/.test(
      current.at(-1) ?? '',
    );
    if (!isAsked || given >= current.length || answers[given] === undefined) return;
    child.stdin.write(`${answers[given++]}\r`);
  });
  const code = await new Promise<number | null>((resolve) => child.on('close', resolve));
  return { code, out: all, all };
}

async function generate(): Promise<string> {
  const args = ['--passphrase-fd', '3', 'config', 'generate', '--passphrase', '--attestation', 'tpm'];
  const { code, out } = await cluster(['-o', 'json', ...args], [OLD]);
  expect(code).toBe(0);
  const { data } = JSON.parse(out) as { data: { encrypted: boolean; ownerPublicKey: string } };
  expect(data.encrypted).toBe(true);
  return data.ownerPublicKey;
}

const provisioning = (lines: readonly string[], more: readonly string[] = []) =>
  cluster(
    [
      '-o',
      'json',
      '-v',
      ...(lines.length > 0 ? ['--passphrase-fd', '3'] : []),
      ...more,
      'provisioning',
      'generate',
    ],
    lines,
  );

/** Everything that a run shows, and every file that it leaves, contains no plain key and no passphrase. */
async function expectNoSecret(runs: readonly Run[]): Promise<void> {
  const names = await readdir(workspace);
  expect(names.filter((name) => name.endsWith('.tmp'))).toEqual([]);
  const texts = await Promise.all(names.map((name) => readFile(join(workspace, name), 'utf8')));
  for (const text of [...texts, ...runs.map(({ all }) => all)]) {
    for (const secret of [OLD, NEW, WRONG]) expect(text).not.toContain(secret);
    expect(text).not.toMatch(/PRIVATE KEY|"key":/);
  }
}

describe('a workspace with a passphrase', () => {
  test('opens with the passphrase from a file descriptor, and refuses a wrong passphrase and a missing one', async () => {
    const publicKey = await generate();
    const right = await provisioning([OLD]);
    expect(right.code).toBe(0);
    expect(right.out).toContain(publicKey);
    const wrong = await provisioning([WRONG]);
    expect([wrong.code, wrong.out]).toEqual([4, expect.stringContaining('"workspace-passphrase-wrong"')]);
    const none = await provisioning([]);
    expect([none.code, none.out]).toEqual([5, expect.stringContaining('"workspace-passphrase-needed"')]);
    const closed = await provisioning([], ['--passphrase-fd', '900']);
    expect([closed.code, closed.out]).toEqual([
      2,
      expect.stringContaining('"workspace-passphrase-descriptor"'),
    ]);
    await expectNoSecret([right, wrong, none, closed]);
  });

  test('reads a new passphrase from a second file descriptor, and --remove removes the passphrase', async () => {
    const publicKey = await generate();
    const args = ['--passphrase-fd', '3', 'config', 'passphrase'];
    const changed = await cluster([...args, '--new-passphrase-fd', '4'], [OLD, NEW]);
    expect(changed.code).toBe(0);
    expect((await provisioning([OLD])).code).toBe(4);
    const right = await provisioning([NEW]);
    expect(right.out).toContain(publicKey);
    await expectNoSecret([changed, right]);
    expect((await cluster([...args, '--remove'], [NEW])).code).toBe(0);
    expect((await provisioning([])).out).toContain(publicKey);
  });

  test('asks once for a passphrase at a terminal, twice for a new one, and never shows any of its letters', async () => {
    const created = await atTerminal('config generate --passphrase --attestation tpm', [OLD, OLD]);
    expect(created.all).toContain('remember their passphrase');
    const right = await atTerminal('provisioning generate', [OLD]);
    expect(right.all).toContain('ownerKeys');
    const wrong = await atTerminal('provisioning generate', [WRONG]);
    expect([wrong.code, wrong.all]).toEqual([4, expect.stringContaining('workspace-passphrase-wrong')]);
    const differing = await atTerminal('config passphrase', [OLD, NEW, WRONG]);
    expect([differing.code, differing.all]).toEqual([2, expect.stringContaining('the two entries differ')]);
    const without = await atTerminal('--no-input provisioning generate', []);
    expect([without.code, without.all]).toEqual([5, expect.stringContaining('workspace-passphrase-needed')]);
    await expectNoSecret([created, right, wrong, differing, without]);
  });

  test('has no passphrase in the arguments and the environment of the program', async () => {
    await generate();
    const child = spawn(
      process.execPath,
      [MAIN, '-w', workspace, '--passphrase-fd', '3', 'provisioning', 'generate'],
      {
        stdio: ['ignore', 'pipe', 'pipe', 'pipe'],
      },
    );
    const ended = new Promise((resolve) => child.on('close', resolve));
    const stream = child.stdio[3] as NodeJS.WritableStream;
    stream.write(OLD);
    const shown = await Promise.all(
      ['cmdline', 'environ'].map((name) => readFile(`/proc/${child.pid}/${name}`)),
    );
    expect(shown.map(String).join()).not.toContain(OLD);
    stream.end();
    await ended;
    expect(child.exitCode).toBe(0);
  });

  test('ends at SIGINT while it waits for the passphrase from a file descriptor', async () => {
    await generate();
    const child = spawn(
      process.execPath,
      [MAIN, '-w', workspace, '--passphrase-fd', '3', 'provisioning', 'generate'],
      {
        stdio: ['ignore', 'ignore', 'ignore', 'pipe'],
      },
    );
    const ended = new Promise((resolve) => child.on('close', resolve));
    const stopping = setInterval(() => child.kill('SIGINT'), 2000);
    await ended;
    clearInterval(stopping);
    expect(child.exitCode).toBe(130);
  });
});
