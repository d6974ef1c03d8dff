import { describe, expect, test } from '@jest/globals';
import { untilAborted } from '../../internal/cleanup/index.ts';
import type { Command, CommandRunner } from '../../internal/exec/index.ts';
import type { Secret } from '../../internal/secret/index.ts';
import {
  createMemoryLogger,
  FakeClock,
  FakeCommands,
  MemoryFiles,
  settle,
} from '../../internal/testing/index.ts';
import { findCodeSources, readCodes } from './code-entry.ts';
import { MachineServiceError } from './errors.ts';

const signal = new AbortController().signal;
const CODE = '04H23-4CSV6';
const mistyped = new MachineServiceError(
  'machineservice-code-mistyped',
  'reading the code: group 2 is mistyped',
);
const refused = new MachineServiceError(
  'machineservice-code-refused',
  'opening the state disk with the code',
);

/** Consoles on which a test types. `open` decides about each code. */
async function withConsoles(
  open: (code: string) => Promise<number> | number,
  use: (at: {
    readonly type: (line: string, path?: string) => Promise<void>;
    readonly tried: string[];
    /** What the consoles show, by path. */
    readonly shown: Map<string, string>;
    /** The commands that read the consoles. */
    readonly reads: readonly Command[];
    readonly clock: FakeClock;
    readonly logged: () => string;
  }) => Promise<void>,
  areConsoles = true,
): Promise<void> {
  const typing = new Map<string, (line: string) => void>();
  const shown = new Map<string, string>();
  const reads: Command[] = [];
  const [tried, clock, { log, records }] = [[] as string[], new FakeClock(), createMemoryLogger()];
  const commands: CommandRunner = {
    run: async (command: Command) => {
      const [program, input = '', output = ''] = command.argv;
      const path = program === 'tee' ? output : input.slice('if='.length);
      if (program === 'tee') shown.set(path, `${shown.get(path) ?? ''}${String(command.input)}`);
      else {
        reads.push(command);
        typing.set(path, (line) => command.onLine?.(line, 'stdout'));
        await untilAborted(command.signal);
      }
      return { exitCode: 0, stdout: '', stderr: '' };
    },
  };
  const until = new AbortController();
  const reading = readCodes({
    ...{ commands, clock, log, signal, until: until.signal, text: 'CHALLENGE\n' },
    sources: { paths: ['/dev/tty0', '/dev/ttyS0'], areConsoles },
    open: async (code: Secret<string>) => {
      tried.push(code.reveal());
      return open(code.reveal());
    },
  });
  await settle();
  const type = async (line: string, path = '/dev/ttyS0'): Promise<void> => {
    typing.get(path)?.(line);
    await settle();
  };
  try {
    await use({ type, tried, shown, reads, clock, logged: () => JSON.stringify(records) });
  } finally {
    until.abort(new Error('the disk is open'));
    await reading;
  }
  expect(clock.sleeping).toBe(0);
}

const refuse = (error: Error) => (): never => {
  throw error;
};

describe('readCodes()', () => {
  test('shows the challenge on each console, and again after an empty line', async () => {
    await withConsoles(
      () => 0,
      async ({ type, shown, tried }) => {
        expect([...shown.values()]).toEqual(['CHALLENGE\n', 'CHALLENGE\n']);
        await type('');
        expect([shown.get('/dev/ttyS0'), tried]).toEqual(['CHALLENGE\nCHALLENGE\n', []]);
      },
    );
  });

  test('opens the disk with a line of any console, and says so there', async () => {
    await withConsoles(
      () => 0,
      async ({ type, shown, tried }) => {
        await type(` ${CODE}\r`, '/dev/tty0');
        expect(tried).toEqual([CODE]);
        expect(shown.get('/dev/tty0')).toContain('The state disk is open.');
        expect(shown.get('/dev/ttyS0')).toBe('CHALLENGE\n');
      },
    );
  });

  test('ignores what is typed while a code is tried, on every console', async () => {
    const trying = Promise.withResolvers<void>();
    await withConsoles(
      () => trying.promise.then(() => 0),
      async ({ type, tried, shown }) => {
        await type(CODE);
        await type('second');
        await type('third', '/dev/tty0');
        expect(tried).toEqual([CODE]);
        for (const path of ['/dev/ttyS0', '/dev/tty0'])
          expect(shown.get(path)).toBe('CHALLENGE\nnot read: a code is being tried\n');
        trying.resolve();
        await settle();
      },
    );
  });

  test('says code, cause and fix of a refusal, and waits longer after each refused code', async () => {
    await withConsoles(refuse(refused), async ({ type, tried, shown, clock }) => {
      for (const [index, seconds] of [2, 4, 8, 16, 32, 60, 60].entries()) {
        await type(CODE);
        expect(tried).toHaveLength(index + 1);
        await clock.advance(seconds * 1000 - 1);
        await type(CODE);
        expect(tried).toHaveLength(index + 1);
        await clock.advance(1);
      }
      expect(shown.get('/dev/ttyS0')).toContain(
        `machineservice-code-refused: opening the state disk with the code\n  Fix: Press Enter to see the challenge`,
      );
      expect(shown.get('/dev/ttyS0')?.match(/Next try in .*/g)).toEqual(
        [2, 4, 8, 16, 32, 60, 60].map((seconds) => `Next try in ${seconds} s.`),
      );
    });
  });

  test('says how many owners are missing after the code of one, which makes nobody wait longer', async () => {
    const missing = [2, 1, 0];
    await withConsoles(
      () => missing.shift() ?? 0,
      async ({ type, tried, shown, clock }) => {
        await type('one');
        await clock.advance(1000);
        await type('two');
        await clock.advance(1000);
        await type('three', '/dev/tty0');
        expect(tried).toEqual(['one', 'two', 'three']);
        expect(shown.get('/dev/ttyS0')?.match(/The code is right.*/g)).toEqual([
          'The code is right. 2 more owners must act: with a code for this challenge, or over the network.',
          'The code is right. 1 more owner must act: with a code for this challenge, or over the network.',
        ]);
        expect(shown.get('/dev/tty0')).toContain('The state disk is open.');
      },
    );
  });

  test('answers a line that comes too early once a wait, and reads the other consoles meanwhile', async () => {
    await withConsoles(refuse(refused), async ({ type, tried, shown, clock, logged }) => {
      await type(CODE);
      await clock.advance(500);
      for (const early of ['early', '', 'early']) await type(early);
      expect(shown.get('/dev/ttyS0')?.match(/not read.*/g)).toEqual(['not read: next try in 2 s']);
      expect(shown.get('/dev/tty0')).toBe('CHALLENGE\n');
      await type('other', '/dev/tty0');
      expect(tried).toEqual([CODE, 'other']);
      expect(shown.get('/dev/tty0')).toContain('Next try in 4 s.');
      await clock.advance(1500);
      await type(CODE);
      await type('early');
      expect(tried).toHaveLength(3);
      expect(shown.get('/dev/ttyS0')?.match(/not read.*/g)).toEqual([
        'not read: next try in 2 s',
        'not read: next try in 8 s',
      ]);
      expect(logged()).toContain('not read');
      expect(logged()).not.toContain('early');
      await clock.advance(60_000);
    });
  });

  test('waits one second after each typing error', async () => {
    await withConsoles(refuse(mistyped), async ({ type, tried, shown, clock }) => {
      for (const count of [1, 2, 3]) {
        await type(CODE);
        await type(CODE);
        expect(tried).toHaveLength(count);
        await clock.advance(1000);
      }
      expect(shown.get('/dev/ttyS0')).toContain('group 2 is mistyped');
    });
  });

  test('logs no code', async () => {
    await withConsoles(refuse(refused), async ({ type, logged }) => {
      await type(CODE);
      expect(logged()).toContain('machineservice-code-refused');
      expect(logged()).not.toContain(CODE);
    });
  });

  test('keeps no code in the output of a command', async () => {
    await withConsoles(
      () => 0,
      async ({ reads }) => {
        expect(reads.map(({ argv, isOutputSecret }) => [argv[1], isOutputSecret])).toEqual([
          ['if=/dev/tty0', true],
          ['if=/dev/ttyS0', true],
        ]);
      },
    );
  });

  test('writes nothing into a named pipe', async () => {
    await withConsoles(
      refuse(refused),
      async ({ type, shown, tried }) => {
        await type(CODE);
        expect([tried, [...shown]]).toEqual([[CODE], []]);
      },
      false,
    );
  });
});

describe('findCodeSources()', () => {
  const PIPE = '/run/cluster/locked-disk/code';
  const find = async (active: string | undefined, hasLogins: boolean) => {
    const [files, commands] = [new MemoryFiles(), new FakeCommands()];
    if (hasLogins) {
      await files.makeDirectory('/usr/sbin');
      await files.writeAtomic('/usr/sbin/agetty', '');
    }
    const readAttribute = (path: string): Promise<Uint8Array> => {
      expect(path).toBe('/sys/class/tty/console/active');
      return active === undefined
        ? Promise.reject(new Error('ENOENT'))
        : Promise.resolve(Buffer.from(active));
    };
    return {
      ...(await findCodeSources({ files, commands, kernel: { readAttribute } }, PIPE, signal)),
      commands,
    };
  };

  test('returns all consoles of a machine without logins', async () => {
    expect(await find('tty0 ttyS0\n', false)).toMatchObject({
      paths: ['/dev/tty0', '/dev/ttyS0'],
      areConsoles: true,
    });
  });

  test.each([
    ['with logins', 'tty0 ttyS0\n', true],
    ['without a console', '', false],
    ['whose kernel does not list its consoles', undefined, false],
  ])('creates a pipe that only root can write on a machine %s', async (_, active, hasLogins) => {
    const { paths, areConsoles, commands } = await find(active, hasLogins);
    expect([paths, areConsoles, commands.runs]).toEqual([
      [PIPE],
      false,
      [['mkfifo', '--mode=0600', '--', PIPE]],
    ]);
  });
});
