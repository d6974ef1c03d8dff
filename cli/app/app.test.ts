import { describe, expect, test } from '@jest/globals';
import type { Argument, Command, Option } from 'commander';
import { execFileSync } from 'node:child_process';
import { PassThrough } from 'node:stream';
import { SystemClock } from '../../internal/clock/index.ts';
import { CodedError, EXIT_CODES, type ExitName } from '../../internal/errors/index.ts';
import { FakeCommands, MemoryFiles, settle } from '../../internal/testing/index.ts';
import { RecordingHost } from '../host/fake-host.ts';
import { Interruption, type Output, type OutputLoss } from '../host/index.ts';
import type { ActionBinder, CommandContext } from './command.ts';
import { effectOf, isListed, TAKING_AWAY, TAKING_NOTHING } from './command-effects.ts';
import { preparseArgs } from './preparse-args.ts';
import { createInertProgram } from './program.ts';
import { COMMANDS, runApp, type CommandEntry } from './index.ts';

interface Run {
  readonly code: number;
  readonly out: string;
  readonly err: string;
  readonly host: RecordingHost;
  readonly loaded: readonly string[];
}

type Handler = (context: CommandContext, options: unknown, ...args: string[]) => Promise<ExitName | void>;

/**
 * One command `probe` with a subcommand, a flag and an argument. The test records which modules are loaded.
 */
async function run(
  args: readonly string[],
  handler: Handler = async () => undefined,
  signal = new AbortController().signal,
  output: Output = { closed: new AbortController().signal, flush: async () => undefined },
): Promise<Run> {
  const loaded: string[] = [];
  const host = new RecordingHost();
  const [out, err] = [new PassThrough(), new PassThrough()];
  const probe: CommandEntry = {
    name: 'probe',
    summary: 'for tests',
    load: async () => {
      loaded.push('probe');
      return {
        register: (command: Command, action: ActionBinder) => {
          command.command('one').argument('[name]').option('--flag').action(action(handler));
        },
      };
    },
  };
  const alone: Pick<CommandEntry, 'name' | 'load'> = {
    name: 'status',
    load: async () => ({
      register: (command, action) => void command.action(action(handler)),
    }),
  };
  const code = await runApp({
    args,
    env: { XDG_CACHE_HOME: '/xdg/cache', XDG_DATA_HOME: 'relative' },
    home: '/home/me',
    cwd: '/here',
    streams: { in: new PassThrough(), out, err },
    output,
    clock: new SystemClock(),
    signal,
    // `probe` takes the name `status`: the program decides by its name whether a command only prints.
    entries: [probe, ...COMMANDS.map((each) => (each.name === 'status' ? { ...probe, ...alone } : each))],
    createHost: () => host,
    readDescriptor: async () => new Uint8Array(Buffer.from('correct horse battery\n')),
    createPorts: async () => {
      loaded.push('ports');
      return { files: new MemoryFiles(), commands: new FakeCommands(), clock: new SystemClock() };
    },
  });
  return { code, out: String(out.read() ?? ''), err: String(err.read() ?? ''), host, loaded };
}

/** Scripts rely on these exit codes: a number never changes its meaning and is never reused. */
const NUMBERS: Readonly<Record<ExitName, number>> = {
  ...{ ok: 0, internal: 1, usage: 2, preflight: 3, refused: 4, precondition: 5, unreachable: 6, partial: 7 },
  ...{
    needsReset: 8,
    locked: 9,
    unhealthy: 10,
    warnings: 11,
    diskFull: 20,
    readOnly: 21,
    address: 22,
    hostname: 23,
    port: 24,
  },
  ...{ swap: 25, clock: 26, image: 27, kubelet: 28, chart: 29, chartTimeout: 30, addressChanged: 31 },
  ...{ hungUp: 129, interrupted: 130, outputClosed: 141, terminated: 143 },
};

const failing =
  (exit: ExitName): Handler =>
  async () => {
    const spec = { fault: 'operator', exit, retryable: false, meaning: '', fix: 'fix it' } as const;
    throw new CodedError({ 'probe-failed': spec }, 'probe-failed', 'probing', {
      cause: new Error('because'),
    });
  };

describe('runApp()', () => {
  test('passes flags, arguments and the paths of the user to the handler', async () => {
    const seen: unknown[] = [];
    const { code } = await run(['probe', 'one', 'x', '--flag', '-w', 'sub'], async (context, ...rest) => {
      seen.push(context.paths, ...rest);
    });
    expect(code).toBe(0);
    expect(seen).toEqual([
      {
        cache: '/xdg/cache/cluster',
        data: '/home/me/.local/share/cluster',
        config: '/home/me/.config/cluster',
        workspace: '/here/sub',
      },
      { flag: true },
      'x',
    ]);
  });

  test('accepts global flags before the command', async () => {
    let workspace = '';
    await run(['--workspace=/w', 'probe', 'one'], async ({ paths }) => void (workspace = paths.workspace));
    expect(workspace).toBe('/w');
  });

  test('loads neither commands nor ports (access to files, processes, network) for --help, --version and usage errors', async () => {
    for (const args of [['--help'], ['--version'], [], ['nonsense'], ['-h']]) {
      expect((await run(args)).loaded).toEqual([]);
    }
  });

  test('prints help of the program and of commands to stdout and exits with 0', async () => {
    const top = await run(['--help']);
    expect(top.code).toBe(0);
    for (const { name } of COMMANDS) expect(top.out).toContain(`  ${name}`);
    const one = await run(['probe', 'one', '--help']);
    expect({ code: one.code, flag: one.out.includes('--flag') }).toEqual({ code: 0, flag: true });
  });

  test('describes a command, and the program, as data', async () => {
    for (const args of [
      ['help', 'probe', 'one'],
      ['probe', 'one', '--help'],
    ]) {
      const { code, host, out } = await run([...args, '-o', 'json']);
      expect({ code, out }).toEqual({ code: 0, out: '' });
      expect(host.answered).toMatchObject({
        command: 'probe one',
        usage: 'cluster probe one [options] [name]',
        arguments: [{ name: 'name', required: false }],
        options: [{ flags: '--flag' }],
      });
    }
    expect((await run(['--help', '-o', 'yaml'])).host.answered).toMatchObject({ command: '' });
    expect((await run(['--version', '-o', 'json'])).host.answered).toHaveProperty('version');
  });

  const usage = [
    { name: 'an unknown command', args: ['nonsense'] },
    { name: 'an unknown flag', args: ['probe', 'one', '--nonsense'] },
    { name: 'too many arguments', args: ['probe', 'one', 'a', 'b'] },
    { name: 'an unknown output format', args: ['-o', 'xml', 'probe', 'one'] },
    { name: 'an unknown value of --events', args: ['--events', 'file', 'probe', 'one'] },
    { name: '--output name for a command that lists nothing', args: ['-o', 'name', 'probe', 'one'] },
    { name: '--output wide for a command that lists nothing', args: ['-o', 'wide', 'probe', 'one'] },
    { name: '--no-headers for a command that lists nothing', args: ['--no-headers', 'probe', 'one'] },
  ];
  test.each(usage)('refuses $name as a usage error', async ({ args }) => {
    const { code, host } = await run(args);
    expect(code).toBe(EXIT_CODES.usage.number);
    expect(host.records).toMatchObject([{ kind: 'fail', report: { code: 'app-usage', exit: 'usage' } }]);
  });

  const exits = Object.keys(EXIT_CODES) as ExitName[];
  test.each(exits.filter((exit) => exit !== 'ok'))(
    'a command that throws an error with exit %s ends with the exit code of that name',
    async (exit) => {
      const { code, host } = await run(['probe', 'one'], failing(exit));
      expect(code).toBe(EXIT_CODES[exit].number);
      expect(host.records).toMatchObject([
        { kind: 'fail', report: { code: 'probe-failed', message: 'probing: because', fix: 'fix it', exit } },
      ]);
    },
  );

  test.each(exits)('a command that returns %s ends with the exit code of that name', async (exit) => {
    expect((await run(['probe', 'one'], async () => exit)).code).toBe(NUMBERS[exit]);
  });

  test('reports an error without a code as a bug, with its stack trace', async () => {
    const { code, host } = await run(['probe', 'one'], () => Promise.reject(new TypeError('x is undefined')));
    expect(code).toBe(EXIT_CODES.internal.number);
    expect(host.records).toMatchObject([
      { report: { code: 'app-defect', stack: expect.stringContaining('TypeError') } },
    ]);
  });

  const signals = [
    { exit: 'interrupted', number: 130 },
    { exit: 'terminated', number: 143 },
  ] as const;
  test.each(signals)(
    'exits with $number and prints no error when the command is $exit',
    async ({ exit, number }) => {
      const stopping = new AbortController();
      const { code, host } = await run(
        ['probe', 'one'],
        async ({ signal }) => {
          stopping.abort(new Interruption(exit));
          signal.throwIfAborted();
        },
        stopping.signal,
      );
      expect(code).toBe(number);
      expect(host.codes).toEqual(['app-stopping', 'app-interrupted']);
    },
  );

  const journals: readonly { name: string; steps: readonly string[]; want: string }[] = [
    {
      name: 'before its first step',
      steps: [],
      want: 'interrupted. Run the same command again to continue.',
    },
    {
      name: 'in its third step',
      steps: ['One', 'Two', 'Three'],
      want: 'interrupted. Done: "One", "Two". Not finished: "Three". Run the same command again to continue.',
    },
    {
      name: 'after many steps',
      steps: ['One', 'Two', 'Three', 'Four', 'Five'],
      want: 'interrupted. Done: 4 steps, the last one "Four". Not finished: "Five". Run the same command again to continue.',
    },
  ];
  test.each(journals)(
    'says what is done and what is not when a command that makes changes is interrupted $name',
    async ({ steps, want }) => {
      const stopping = new AbortController();
      const { host } = await run(
        ['probe', 'one'],
        async ({ host: shown, signal }) => {
          for (const title of steps)
            await shown.step('x', title, async () => {
              if (title !== steps.at(-1)) return;
              stopping.abort(new Interruption('interrupted'));
              signal.throwIfAborted();
            });
          stopping.abort(new Interruption('interrupted'));
          signal.throwIfAborted();
        },
        stopping.signal,
      );
      const said = host.records.flatMap((each) =>
        each.kind === 'say' && each.code === 'app-interrupted' ? [each.text] : [],
      );
      expect(said).toEqual([want]);
    },
  );

  test('says nothing about repetition when a command that only prints is interrupted', async () => {
    const stopping = new AbortController();
    const { host } = await run(
      ['status'],
      async ({ signal }) => {
        stopping.abort(new Interruption('interrupted'));
        signal.throwIfAborted();
      },
      stopping.signal,
    );
    expect(host.codes).toEqual(['app-stopping']);
  });
});

describe('preparseArgs()', () => {
  test('sends events to standard error by default, so that standard output has only the result', () => {
    expect(preparseArgs(['-o', 'json', 'status']).flags.events).toBe('stderr');
    expect(preparseArgs(['--events', 'stdout', 'status']).flags.events).toBe('stdout');
  });
});

describe('standard output', () => {
  const lost = (kind: OutputLoss['kind'], code: string): Output => ({
    closed: new AbortController().signal,
    flush: async () => ({ kind, error: Object.assign(new Error(code), { code }) }),
  });
  const running = new AbortController().signal;
  const one: Handler = async () => undefined;

  test('is flushed before the command ends', async () => {
    let isFlushed = false;
    const flush = () => settle().then(() => void (isFlushed = true));
    await run(['help', 'exit-codes'], one, running, { closed: running, flush });
    expect(isFlushed).toBe(true);
  });

  test('is no longer awaited after a signal', async () => {
    const stopping = new AbortController();
    const flush = (): Promise<undefined> => {
      stopping.abort(new Interruption('interrupted'));
      return new Promise(() => undefined);
    };
    const { code } = await run(['probe', 'one'], one, stopping.signal, { closed: running, flush });
    expect(code).toBe(EXIT_CODES.interrupted.number);
  });

  test('that nobody reads any more ends a read-only command with a separate exit code and no message', async () => {
    const { code, host } = await run(['help', 'exit-codes'], one, running, lost('closed', 'EPIPE'));
    expect(code).toBe(EXIT_CODES.outputClosed.number);
    expect(host.codes).toEqual([]);
  });

  test('that nobody reads any more does not change the exit code of a command that makes changes', async () => {
    expect((await run(['probe', 'one'], one, running, lost('closed', 'EPIPE'))).code).toBe(0);
    const failed = await run(['probe', 'one'], failing('partial'), running, lost('closed', 'EPIPE'));
    expect(failed.code).toBe(EXIT_CODES.partial.number);
  });

  test.each([
    { error: 'ENOSPC', exit: 'diskFull' },
    { error: 'EDQUOT', exit: 'diskFull' },
    { error: 'EACCES', exit: 'readOnly' },
  ] as const)('fails the command when the output file cannot be written: $error', async ({ error, exit }) => {
    const { code, host } = await run(['probe', 'one'], one, running, lost('failed', error));
    expect(code).toBe(EXIT_CODES[exit].number);
    expect(host.records).toMatchObject([{ kind: 'fail', report: { exit } }]);
  });

  test('that nobody reads any more stops a read-only command, but no command that makes changes', async () => {
    const closing = new AbortController();
    const output: Output = { closed: closing.signal, flush: async () => undefined };
    const seen: boolean[] = [];
    const { code } = await run(
      ['probe', 'one'],
      async ({ signal }) => {
        closing.abort();
        seen.push(signal.aborted);
      },
      running,
      output,
    );
    expect({ code, seen }).toEqual({ code: 0, seen: [false] });
    const closed = new AbortController();
    const reading = await run(
      ['status'],
      async ({ signal }) => {
        closed.abort();
        signal.throwIfAborted();
      },
      running,
      { closed: closed.signal, flush: async () => undefined },
    );
    expect(reading.code).toBe(EXIT_CODES.outputClosed.number);
  });
});

describe('command effects', () => {
  const leavesOf = async (): Promise<readonly string[]> =>
    (await allCommands())
      .filter(({ command }) => command.commands.length === 0 || command.registeredArguments.length > 0)
      .map(({ path }) => path);

  test('every command is listed as reading or changing', async () => {
    expect((await leavesOf()).filter((path) => !isListed(path))).toEqual([]);
  });

  test('a command that makes changes takes something away, or there is a reason why it does not', async () => {
    const others = (await leavesOf()).filter(
      (path) => effectOf(path) === 'changes' && !TAKING_AWAY.has(path),
    );
    expect(Object.keys(TAKING_NOTHING).sort()).toEqual(others.sort());
    const reason = /^.{15,80}$/;
    expect(Object.entries(TAKING_NOTHING).filter(([, why]) => !reason.test(why))).toEqual([]);
  });

  test('every command that takes something away shows it with --dry-run, and asks first', async () => {
    const commands = new Map((await allCommands()).map(({ path, command }) => [path, command]));
    const has = (path: string, ...names: readonly string[]): boolean =>
      names.some((name) => commands.get(path)?.options.some(isNamed(name)) === true);
    const lacking = [...TAKING_AWAY].filter(
      (path) => !has(path, '--dry-run') || !has(path, '--yes', '--confirm'),
    );
    expect(lacking).toEqual([]);
    // `sign` shows the request that it signs, and takes nothing away.
    const confirmed = [...commands.keys()].filter((path) => has(path, '--yes') && !TAKING_AWAY.has(path));
    expect(confirmed).toEqual(['sign']);
  });
});

describe('defaults in help', () => {
  /** The default that help shows beside a flag or an argument, and whether it is the whole value. */
  const shownDefault = ({
    description,
    defaultValue,
    defaultValueDescription,
  }: Option | Argument): readonly unknown[] => {
    // In the text of a description, a default of more than one word tells where the value comes from: "(default: newest build)".
    const [, inText] = /\(default: (\S+?)(?:, [^)]*)?\)/.exec(description) ?? [];
    const value: unknown = defaultValueDescription ?? defaultValue ?? inText;
    if (value === undefined || typeof value === 'boolean') return [];
    return Array.isArray(value) ? (value as readonly unknown[]) : [value];
  };
  const refusal = (one: Option | Argument, given: string): string | undefined => {
    if (one.argChoices !== undefined && !one.argChoices.includes(given)) return 'no choice';
    try {
      one.parseArg?.(given, undefined as never);
      return undefined;
    } catch (error) {
      return String(error);
    }
  };

  test('are accepted by their own flags and arguments, and give the same value', async () => {
    const commands = [{ path: '', command: await createInertProgram(COMMANDS) }, ...(await allCommands())];
    const all = commands.flatMap(({ path, command }) =>
      [...command.options, ...command.registeredArguments].flatMap((one) =>
        shownDefault(one).map((shown) => ({ path, one, shown: String(shown) })),
      ),
    );
    expect(all.length).toBeGreaterThan(20);
    const wrong = all.flatMap(({ path, one, shown }) => {
      const why = refusal(one, shown);
      return why === undefined ? [] : [`${path} ${one.name()} ${shown}: ${why}`];
    });
    expect(wrong).toEqual([]);
    const other = all.filter(
      ({ one, shown }) =>
        typeof one.defaultValue === 'number' &&
        (one.parseArg?.(shown, undefined as never) as unknown) !== one.defaultValue,
    );
    expect(other.map(({ path, one, shown }) => `${path} ${one.name()} ${shown}`)).toEqual([]);
  });
});

function isNamed(name: string): (option: Option) => boolean {
  return ({ long }) => long === name;
}

/** All commands and groups, with their words: "node ls". */
async function allCommands(): Promise<readonly { readonly path: string; readonly command: Command }[]> {
  const program = await createInertProgram(COMMANDS);
  const flatten = (command: Command, words: readonly string[]): { path: string; command: Command }[] =>
    command.commands.flatMap((each) => {
      const own = [...words, each.name()];
      return [{ path: own.join(' '), command: each }, ...flatten(each, own)];
    });
  return flatten(program, []);
}

describe('a group without a subcommand', () => {
  test('prints help and is a usage error, for every group', async () => {
    const groups = (await allCommands()).filter(({ command }) => command.commands.length > 0);
    expect(groups.map(({ path }) => path)).toContain('attest collateral');
    for (const { path } of groups) {
      const words = path.split(' ');
      const { code, out, err } = await run(words);
      expect({ path, code, out }).toEqual({ path, code: EXIT_CODES.usage.number, out: '' });
      expect(err).toContain(`Usage: cluster ${path} `);
      expect(await run([...words, '--help'])).toMatchObject({ code: 0, err: '', out: err });
    }
  });

  test('is a JSON error with --output json', async () => {
    const { host } = await run(['-o', 'json', 'node']);
    expect(host.records).toMatchObject([{ kind: 'fail', report: { code: 'app-usage' } }]);
  });
});

describe('help', () => {
  test('prints every exit code', async () => {
    const { host } = await run(['help', 'exit-codes']);
    expect(host.answered).toEqual(EXIT_CODES);
  });

  test('explains one error code', async () => {
    const { host } = await run(['help', 'errors', 'workspace-locked']);
    expect(host.answered).toMatchObject({ code: 'workspace-locked', exit: 'locked' });
  });

  test('explains a code of an earlier release under its present name', async () => {
    const { host } = await run(['help', 'errors', 'manage-guard']);
    expect(host.answered).toMatchObject({
      code: expect.not.stringContaining('manage-'),
      exit: expect.any(String),
    });
  });

  test('refuses an unknown code and lists similar ones', async () => {
    const { code, host } = await run(['help', 'errors', 'workspace-nonsense']);
    expect(code).toBe(EXIT_CODES.usage.number);
    expect(host.records).toMatchObject([{ report: { fix: expect.stringContaining('workspace-locked') } }]);
  });

  test('explains a command', async () => {
    expect((await run(['help', 'init'])).out).toContain('--fingerprint');
  });

  test('explains a subcommand that is given by its words', async () => {
    const { code, out } = await run(['help', 'node', 'label']);
    expect({ code, out }).toEqual({ code: 0, out: (await run(['node', 'label', '--help'])).out });
  });

  test.each([['nonsense'], ['node', 'nonsense']])(
    'refuses unknown commands and topics: %s %s',
    async (...words) => {
      const { code, out, host } = await run(['help', ...words]);
      expect({ code, out }).toEqual({ code: EXIT_CODES.usage.number, out: '' });
      expect(host.records).toContainEqual(
        expect.objectContaining({ kind: 'fail', report: expect.objectContaining({ code: 'app-usage' }) }),
      );
    },
  );
});

describe('error catalog', () => {
  test('contains every error code of the source code exactly once', () => {
    const root = new URL('../..', import.meta.url).pathname;
    expect(() =>
      execFileSync(process.execPath, ['.ci/collect-errors.ts', '--check'], { cwd: root, stdio: 'pipe' }),
    ).not.toThrow();
  });
});

describe('completion', () => {
  test.each(['bash', 'zsh', 'fish'])('the script for %s contains every command', async (shell) => {
    const { script } = (await run(['completion', shell])).host.answered as { script: string };
    for (const { name } of COMMANDS) expect(script).toContain(name);
  });
});
