import { spawn, type ChildProcess } from 'node:child_process';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { homedir, tmpdir } from 'node:os';
import { join } from 'node:path';
import { env, execPath } from 'node:process';
import { setTimeout as delay } from 'node:timers/promises';
import { SystemClock } from '../../internal/clock/index.ts';
import { ExecaRunner, HostProcesses } from '../../internal/exec/index.ts';
import { DiskFiles, readText } from '../../internal/file/index.ts';
import {
  findCluster,
  linkName,
  type LocalCluster,
  type HostPorts,
} from '../../internal/localmachines/index.ts';
import { compareHostFacts, readHostFacts, type HostFacts } from './host-facts.ts';
import { ownDirectory, removeLeftovers } from './leftovers.ts';

const CLI = join(import.meta.dirname, '../../cli/main.ts');
/** The built CLI. It starts faster than the sources. */
const BUILT_CLI = join(import.meta.dirname, '../../dist/cluster/main.mjs');
const SEARCH_PATH = env['PATH'] ?? '';
/** How the names of the directories of stories and benches begin. */
const DIRECTORY = 'cluster-story-';
/** Of the output of a command that failed. */
const SHOWN_CHARACTERS = 2_000;

/** Relative to the data directory of a machine. */
const ACCEPTED_DOCUMENTS = 'cluster/membership/accepted-documents.json';

/** A public key whose private key nobody has, so no agent in these stories obeys an owner. */
export const OWNER_KEY = Buffer.alloc(32, 1).toString('base64');

export interface CliResult {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/**
 * The environment of a story: a data directory, a placeholder of the agent's package, and the real CLI. All
 * of it is removed with its clusters when the story ends or fails, or before the next one if it was killed.
 */
export class Harness implements AsyncDisposable {
  readonly directory: string;
  readonly agent: string;
  readonly machines: HostPorts = {
    files: new DiskFiles(),
    commands: new ExecaRunner({ path: SEARCH_PATH }),
    processes: new HostProcesses({ path: SEARCH_PATH }),
    clock: new SystemClock(),
  };
  readonly signal = new AbortController().signal;
  readonly #environment: Readonly<Record<string, string>>;
  readonly #givesOldDisks: boolean;

  constructor(
    directory: string,
    agent: string,
    { cache, givesOldDisks = false }: { readonly cache?: string; readonly givesOldDisks?: boolean },
  ) {
    this.directory = directory;
    this.agent = agent;
    this.#givesOldDisks = givesOldDisks;
    this.#environment = {
      PATH: SEARCH_PATH,
      HOME: homedir(),
      XDG_DATA_HOME: join(directory, 'data'),
      XDG_CACHE_HOME: cache ?? env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache'),
    };
  }

  /** The directory `<data>/mini` of the CLI. */
  get root(): string {
    return join(this.directory, 'data/cluster/mini');
  }

  /** Runs the CLI and waits until it ends. */
  cli(...args: readonly string[]): Promise<CliResult> {
    return resultOf(this.startCli(...args));
  }

  /** Like `cli`, in a network namespace without any network, not even loopback. */
  cliOffline(...args: readonly string[]): Promise<CliResult> {
    return resultOf(this.startCliOffline(...args));
  }

  /**
   * Runs a CLI command that must succeed, and returns its stdout. Throws an error with its messages
   * otherwise.
   */
  async must(...args: readonly string[]): Promise<string> {
    const { code, stdout, stderr } = await this.cli(...args);
    // With `--output json` the error is on standard output.
    if (code !== 0)
      throw new Error(
        `cluster ${args.join(' ')} ended with ${code}: ${stderr}${stdout.slice(-SHOWN_CHARACTERS)}`,
      );
    return stdout;
  }

  /** Runs `mini up --nodes-only` with the placeholder agent. */
  up(name: string): Promise<string> {
    return this.must('mini', 'up', '--nodes-only', '--name', name, '--agent', this.agent);
  }

  startCli(...args: readonly string[]): ChildProcess {
    return this.startCliIn({}, ...args);
  }

  /** Starts the CLI, kills it `ms` after it has printed `after`, and waits until it has ended. */
  async killedCli(after: string, ms: number, ...args: readonly string[]): Promise<void> {
    const child = this.startCli(...args);
    const ended = new Promise<void>((resolve) => child.once('close', () => resolve()));
    let said = '';
    await new Promise<void>((resolve, reject) => {
      child.stderr?.on('data', (chunk: Buffer) => {
        said += chunk.toString();
        if (said.includes(after)) resolve();
      });
      child.once('close', () => reject(new Error(`the CLI ended before it printed "${after}": ${said}`)));
    });
    await delay(ms);
    child.kill('SIGKILL');
    await ended;
  }

  /** Starts the CLI with additional environment variables. */
  startCliIn(more: Readonly<Record<string, string>>, ...args: readonly string[]): ChildProcess {
    const environment = { ...this.#environment, ...more };
    return spawn(execPath, [CLI, ...args], { env: environment, stdio: ['ignore', 'pipe', 'pipe'] });
  }

  /** Starts the built CLI. */
  startBuiltCli(...args: readonly string[]): ChildProcess {
    return spawn(execPath, [BUILT_CLI, ...args], {
      env: this.#environment,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
  }

  /** Starts the CLI in a network namespace without any network, not even loopback. */
  startCliOffline(...args: readonly string[]): ChildProcess {
    const argv = ['--net', '--', execPath, CLI, ...args];
    return spawn('unshare', argv, { env: this.#environment, stdio: ['ignore', 'pipe', 'pipe'] });
  }

  /** Starts the CLI in a terminal. Data that is written to its stdin is typed into the terminal. */
  startCliAtTerminal(...args: readonly string[]): ChildProcess {
    return this.startCliAtTerminalIn({}, ...args);
  }

  /** Like `startCliAtTerminal`, with additional environment variables. */
  startCliAtTerminalIn(more: Readonly<Record<string, string>>, ...args: readonly string[]): ChildProcess {
    const command = [execPath, CLI, ...args].map((word) => `'${word}'`).join(' ');
    const argv = ['--quiet', '--return', '--flush', '--command', command, '/dev/null'];
    const environment = { ...this.#environment, TERM: 'xterm', ...more };
    return spawn('script', argv, { env: environment, stdio: ['pipe', 'pipe', 'inherit'] });
  }

  async cluster(name: string): Promise<LocalCluster> {
    const cluster = await findCluster(this.machines, { root: this.root, name });
    if (cluster === undefined) throw new Error(`there is no cluster ${name}`);
    return cluster;
  }

  facts(): Promise<HostFacts> {
    return readHostFacts(this.machines, { markers: [this.directory], signal: this.signal });
  }

  /**
   * Differences between two states of the host, without changes by clusters of other stories.
   * @param mine network numbers of this story's clusters
   */
  changes(before: HostFacts, after: HostFacts, mine: readonly number[] = []): readonly string[] {
    return compareHostFacts(before, after).filter((line) => {
      const owner = /\bclu(\d+)\b/.exec(line)?.[1];
      if (owner !== undefined) return mine.map(linkName).includes(`clu${owner}`);
      return !(othersRun(after) && line.endsWith('clustermini.slice'));
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const wrong = await this.removeMachines();
    await rm(this.directory, { recursive: true });
    if (wrong.length > 0) throw new Error(`${wrong.join(', ')} took the newest disk for an old copy`);
  }

  /** @returns nodes that took their disk for an old copy, which they must not unless the story gives old copies */
  async removeMachines(): Promise<readonly string[]> {
    const wrong: string[] = [];
    for (const name of await this.machines.files.list(this.root)) {
      if (!this.#givesOldDisks) wrong.push(...(await this.#nodesOnOldDisks(name)));
      await this.must('mini', 'down', '--name', name);
    }
    return wrong;
  }

  /** Machines that have found that their disk is an old copy (bootstrapper/rollback). */
  async #nodesOnOldDisks(name: string): Promise<readonly string[]> {
    const cluster = await findCluster(this.machines, { root: this.root, name });
    const found: string[] = [];
    for (const node of (await cluster?.nodes()) ?? []) {
      const text = await readText(this.machines.files, join(node.paths.data, ACCEPTED_DOCUMENTS));
      if (text?.includes('"signedAfterMs"') === true) found.push(`${node.name} of ${name}`);
    }
    return found;
  }
}

/**
 * @param options `ownCache` gives the story its own cache directory. By default it shares the user's cache,
 * so that the root file system is built only once. `givesOldDisks`: the story restores older files of a machine, which the machine
 * must notice; in any other story that is an error.
 */
export async function createHarness(
  options: { readonly ownCache?: true; readonly givesOldDisks?: true } = {},
): Promise<Harness> {
  await removeLeftovers(tmpdir(), DIRECTORY, async (left) => {
    await new Harness(left, '', { givesOldDisks: true }).removeMachines();
  });
  const directory = await mkdtemp(join(tmpdir(), DIRECTORY));
  await ownDirectory(directory);
  const agent = join(directory, 'cluster-agent_0.0.0_all.deb');
  await buildPlaceholder(directory, agent);
  return new Harness(directory, agent, {
    ...(options.ownCache && { cache: join(directory, 'cache') }),
    ...options,
  });
}

function othersRun(after: HostFacts): boolean {
  return (after['folders'] ?? []).some((line) => line.startsWith('/var/lib/cluster-mini/'));
}

/**
 * Builds a package with the agent's name whose unit only sleeps, for stories about machines and not about the
 * agent.
 */
export async function buildPlaceholder(
  directory: string,
  target: string,
  postinst = 'systemctl enable bootstrapper.service',
): Promise<void> {
  const tree = join(directory, 'agent');
  const control = [
    'Package: cluster-agent',
    'Version: 0.0.0',
    'Architecture: all',
    'Maintainer: nobody <nobody@example.org>',
    'Depends: systemd, dbus, iproute2',
    'Description: placeholder',
  ];
  const unit = [
    '[Unit]',
    'Description=placeholder of the agent',
    '[Service]',
    'ExecStart=/bin/sleep infinity',
    '[Install]',
    'WantedBy=multi-user.target',
  ];
  await mkdir(join(tree, 'DEBIAN'), { recursive: true });
  await mkdir(join(tree, 'lib/systemd/system'), { recursive: true });
  await writeFile(join(tree, 'DEBIAN/control'), `${control.join('\n')}\n`);
  await writeFile(join(tree, 'DEBIAN/postinst'), `#!/bin/sh\nset -e\n${postinst}\n`, {
    mode: 0o755,
  });
  await writeFile(join(tree, 'lib/systemd/system/bootstrapper.service'), `${unit.join('\n')}\n`);
  const runner = new ExecaRunner({ path: SEARCH_PATH });
  await runner.run({
    argv: ['dpkg-deb', '--root-owner-group', '--build', tree, target],
    // A fixed time gives the same bytes each time, so that all stories share one layer in the cache.
    env: { PATH: SEARCH_PATH, SOURCE_DATE_EPOCH: '1767225600' },
    signal: new AbortController().signal,
  });
}

/** Waits until a program has ended. */
async function resultOf(child: ChildProcess): Promise<CliResult> {
  let stdout = '';
  let stderr = '';
  child.stdout?.on('data', (chunk: Buffer) => (stdout += chunk.toString()));
  child.stderr?.on('data', (chunk: Buffer) => (stderr += chunk.toString()));
  const code = await new Promise<number>((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (exit) => resolve(exit ?? -1));
  });
  return { code, stdout, stderr };
}
