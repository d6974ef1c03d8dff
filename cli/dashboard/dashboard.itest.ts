import { spawn, type ChildProcessWithoutNullStreams } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { createCliHarness, type CliHarness } from '../app/fake-cli.ts';
import { createFakeCluster } from './fake-cluster.ts';

const MAIN = join(import.meta.dirname, '../main.ts');
const LEAVE = '\u001b[0m\u001b[?7h\u001b[?25h\u001b[?1049l';

/** A person sees no delay below this. */
const KEY_MS = 100;
const KEYS = 20;
/** Other programs may use the machine during a round. */
const ROUNDS = 5;

let cli: CliHarness;
let cluster: Awaited<ReturnType<typeof createFakeCluster>>;
beforeEach(async () => {
  cli = await createCliHarness();
  cluster = await createFakeCluster(5);
  await cli.copy(cluster.harness.files, '/owner', 'owner');
});
afterEach(async () => {
  await cluster[Symbol.asyncDispose]();
  await cli[Symbol.asyncDispose]();
});

/** The dashboard at a terminal of 80 by 24 cells, and what the shell behind it then says about the terminal. */
class Terminal {
  readonly #child: ChildProcessWithoutNullStreams;
  #shown = '';
  #wake = Promise.withResolvers<void>();

  constructor(workspace = 'owner') {
    const dashboard = `sh -c 'echo $$ > pid; exec "${process.execPath}" "${MAIN}" -w ${workspace} dashboard'`;
    const command = `stty rows 24 cols 80; ${dashboard}; echo "code=$?"; stty -a`;
    this.#child = spawn('script', ['--quiet', '--flush', '--command', command, '/dev/null'], {
      cwd: cli.root,
      env: {
        PATH: process.env['PATH'] ?? '',
        HOME: cli.root,
        TERM: 'xterm',
        LANG: 'C.UTF-8',
        SHELL: '/bin/sh',
      },
    });
    this.#child.stdout.on('data', (chunk: Buffer) => {
      this.#shown += String(chunk);
      this.#wake.resolve();
      this.#wake = Promise.withResolvers();
    });
  }

  /** Waits until the terminal was sent a text after the last one that was awaited. */
  async awaitText(wanted: string): Promise<void> {
    for (;;) {
      const at = this.#shown.indexOf(wanted);
      if (at >= 0) {
        this.#shown = this.#shown.slice(at + wanted.length);
        return;
      }
      await this.#wake.promise;
    }
  }

  type(keys: string): void {
    this.#child.stdin.write(keys);
  }

  async signal(name: NodeJS.Signals): Promise<void> {
    process.kill(Number(await readFile(join(cli.root, 'pid'), 'utf8')), name);
  }

  /** The end of the dashboard: its exit code, and whether the terminal reads whole lines and shows them again. */
  async end(): Promise<{ readonly code: number; readonly isCooked: boolean; readonly isLeft: boolean }> {
    await once(this.#child, 'close');
    const [, before = '', code = '', modes = ''] = /^([\s\S]*)code=(\d+)([\s\S]*)$/.exec(this.#shown) ?? [];
    return {
      code: Number(code),
      isCooked: /(?:^| )icanon/m.test(modes) && /(?:^| )echo(?: |;|$)/m.test(modes),
      isLeft: before.includes(LEAVE),
    };
  }
}

describe('cluster dashboard at a terminal', () => {
  test('shows nodes, views, and live logs, and restores the terminal at q', async () => {
    const terminal = new Terminal();
    await terminal.awaitText('n5 ');
    terminal.type('\t');
    await terminal.awaitText('CERTIFICATE');
    terminal.type('1\u001b[B');
    terminal.type('l');
    await terminal.awaitText('Logs of n2');
    await terminal.awaitText('two');
    terminal.type('q');
    expect(await terminal.end()).toEqual({ code: 0, isCooked: true, isLeft: true });
  });

  test.each([
    { signal: 'SIGTERM', code: 143 },
    { signal: 'SIGINT', code: 130 },
  ] as const)('restores the terminal at $signal', async ({ signal, code }) => {
    const terminal = new Terminal();
    await terminal.awaitText('n5 ');
    await terminal.signal(signal);
    expect(await terminal.end()).toEqual({ code, isCooked: true, isLeft: true });
  });

  test('shows a node that stops sending heartbeats, and a source that the role does not allow', async () => {
    const terminal = new Terminal();
    await terminal.awaitText('n5 ');
    cluster.refused.add('listAudit');
    cluster.nodes = cluster.nodes.map((node) => (node.name === 'n2' ? { ...node, health: 3 } : node));
    await terminal.awaitText('NotResponding');
    terminal.type('3');
    await terminal.awaitText('not read yet');
    terminal.type('5');
    await terminal.awaitText('decisions: not for your role');
    terminal.type('\u0003');
    expect(await terminal.end()).toMatchObject({ code: 0, isCooked: true, isLeft: true });
  });
});

/** The medians of each round of keys, in milliseconds, until one is below the limit. */
async function mediansUntilBelow(limitMs: number, measure: () => Promise<number>): Promise<number[]> {
  const medians: number[] = [];
  while (medians.length < ROUNDS && (medians.at(-1) ?? Infinity) >= limitMs) {
    const times: number[] = [];
    for (let key = 0; key < KEYS; key++) times.push(await measure());
    medians.push(times.toSorted((a, b) => a - b)[KEYS / 2] ?? Infinity);
  }
  return medians;
}

test('cluster dashboard shows the view of a key within 100 ms among 200 nodes', async () => {
  await using large = await createFakeCluster(200);
  await cli.copy(large.harness.files, '/owner', 'large');
  const terminal = new Terminal('large');
  await terminal.awaitText('WAITS FOR');
  const medians = await mediansUntilBelow(KEY_MS, async () => {
    const started = performance.now();
    terminal.type('2');
    await terminal.awaitText('CERTIFICATE');
    const shown = performance.now();
    terminal.type('1');
    await terminal.awaitText('WAITS FOR');
    return Math.max(shown - started, performance.now() - shown);
  });
  expect(medians.at(-1)).toBeLessThan(KEY_MS);
  terminal.type('q');
  expect(await terminal.end()).toMatchObject({ code: 0, isCooked: true, isLeft: true });
}, 180_000);

test.each([true, false])(
  'cluster dashboard shows that the quorum is lost; at its start: %s',
  async (isAtStart) => {
    cluster.hasQuorum = !isAtStart;
    const terminal = new Terminal();
    if (!isAtStart) await terminal.awaitText('n5 ');
    cluster.hasQuorum = false;
    await terminal.awaitText(isAtStart ? 'quorum lost' : 'quorum lost: old data');
    terminal.type('q');
    expect(await terminal.end()).toMatchObject({ code: 0, isLeft: true });
  },
);

test('cluster dashboard refuses to run without a terminal, and names what works there', async () => {
  const { code, err } = await cli.run(['-w', 'owner', 'dashboard']);
  expect(code).not.toBe(0);
  expect(err).toContain('dashboard-no-terminal');
  expect(err).toContain('cluster status --watch');
  expect(err).toContain('cluster dashboard --web');
});
