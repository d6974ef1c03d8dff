import { getEventListeners } from 'node:events';
import { inspect } from 'node:util';
import { describe, expect, test } from '@jest/globals';
import { SystemClock } from '../clock/index.ts';
import { ExecaRunner, type Command } from './index.ts';

const clock = new SystemClock();
const runner = new ExecaRunner({ path: '/usr/sbin:/usr/bin:/sbin:/bin' });
const never = new AbortController().signal;
const sh = (script: string, options: Partial<Command> = {}) =>
  runner.run({ argv: ['sh', '-c', script], signal: never, ...options });

/** A controller that fires at the first line of output. */
function abortAtFirstLine(reason = new Error('enough')) {
  const controller = new AbortController();
  return { reason, signal: controller.signal, onLine: () => controller.abort(reason) };
}

/** Whether a process exists. A zombie process does not count. */
async function runs(pid: string): Promise<boolean> {
  const { exitCode } = await sh(`grep -q '^State:.[^Z]' /proc/${pid}/status`, { okExitCodes: [0, 1, 2] });
  return exitCode === 0;
}

describe('run()', () => {
  test('returns the exit code and both outputs', async () => {
    expect(await sh('echo out; echo err >&2')).toEqual({ exitCode: 0, stdout: 'out\n', stderr: 'err\n' });
  });

  test('passes arguments unchanged, without a shell', async () => {
    const strange = ['$HOME', 'a b', '*', ';', '"', "'", '\n', 'ä'];
    const { stdout } = await runner.run({ argv: ['printf', '%s|', ...strange], signal: never });
    expect(stdout).toBe(`${strange.join('|')}|`);
  });

  test('passes only PATH of the environment of this process', async () => {
    process.env['LEAK'] = 'leaked';
    try {
      const { stdout } = await runner.run({ argv: ['env'], signal: never });
      expect(stdout).toBe('PATH=/usr/sbin:/usr/bin:/sbin:/bin\n');
    } finally {
      delete process.env['LEAK'];
    }
  });

  test('passes the given environment', async () => {
    expect((await sh('echo $GREETING', { env: { GREETING: 'hello' } })).stdout).toBe('hello\n');
  });

  test('runs the program in the given directory', async () => {
    expect((await sh('pwd', { cwd: '/usr' })).stdout).toBe('/usr\n');
  });

  test('writes the input, and ignores that a program does not read it', async () => {
    expect((await runner.run({ argv: ['cat'], input: 'abc', signal: never })).stdout).toBe('abc');
    expect(
      (await runner.run({ argv: ['true'], input: 'x'.repeat(10_000_000), signal: never })).exitCode,
    ).toBe(0);
  });

  test('gives the program an empty input by default', async () => {
    expect((await runner.run({ argv: ['cat'], signal: never })).stdout).toBe('');
  });

  test('accepts the exit codes in `okExitCodes`', async () => {
    expect((await sh('exit 3', { okExitCodes: [0, 3] })).exitCode).toBe(3);
  });

  test('does not wait for background processes of the program', async () => {
    const startedMs = clock.monotonicMs();
    const { stdout } = await sh('sleep 30 & echo $!');
    expect(clock.monotonicMs() - startedMs).toBeLessThan(10_000);
    await sh(`kill ${stdout}`);
  });
});

describe('onLine', () => {
  test('gets each line at once, and also a last line without a line break', async () => {
    const lines: string[] = [];
    await sh('printf "a\\r\\nb\\n\\nc"; printf "x\\n" >&2', {
      onLine: (line, stream) => lines.push(`${stream} ${line}`),
    });
    expect(lines.filter((line) => line.startsWith('stdout'))).toEqual([
      'stdout a',
      'stdout b',
      'stdout ',
      'stdout c',
    ]);
    expect(lines).toContain('stderr x');
  });

  test('gets a very long line in pieces', async () => {
    let longest = 0;
    let total = 0;
    await sh('head -c 1000000 /dev/zero | tr "\\0" a', {
      onLine: (line) => {
        longest = Math.max(longest, line.length);
        total += line.length;
      },
    });
    expect(total).toBe(1_000_000);
    expect(longest).toBeLessThan(200_000);
  });

  test('gets characters intact that arrive in two chunks', async () => {
    const lines: string[] = [];
    await sh('printf "\\303"; sleep 0.05; printf "\\244\\n"', { onLine: (line) => lines.push(line) });
    expect(lines).toEqual(['ä']);
  });

  test('an error that onLine throws fails the run after the program has ended', async () => {
    let heard = 0;
    const onLine = (): never => {
      heard++;
      throw new Error('bad line');
    };
    await expect(sh('echo a; echo b', { onLine })).rejects.toThrow('bad line');
    expect(heard).toBe(1);
  });
});

describe('secret output', () => {
  const isOutputSecret = true;

  test('is passed on in lines, and is not in the result', async () => {
    const lines: string[] = [];
    const onLine = (line: string): unknown => lines.push(line);
    const result = await sh('echo typed; echo failed >&2', { isOutputSecret, onLine });
    expect([result, lines.sort()]).toEqual([{ exitCode: 0, stdout: '', stderr: '' }, ['failed', 'typed']]);
  });

  test.each(['exit 1', 'sleep 30'])('is not in the error of a program that ends with "%s"', async (end) => {
    const argv: Command['argv'] = ['sh', '-c', `cat; ${end}`];
    const command = { argv, input: 'typed', timeoutMs: 500, isOutputSecret, signal: never };
    const error: unknown = await runner.run(command).catch((each: unknown) => each);
    expect(error).toMatchObject({ name: 'ExecError', outputTail: '' });
    expect(inspect(error, { depth: 9 })).not.toContain('typed');
  });
});

describe('an ExecError', () => {
  test('has argv, exit code and the end of the output', async () => {
    await expect(sh('echo out; echo why >&2; exit 3')).rejects.toMatchObject({
      name: 'ExecError',
      code: 'exec-failed',
      exitCode: 3,
      outputTail: 'why',
      argv: ['sh', '-c', 'echo out; echo why >&2; exit 3'],
    });
  });

  test('has the end of stdout when stderr is empty', async () => {
    await expect(sh('seq 1 100000; exit 1')).rejects.toMatchObject({
      outputTail: expect.stringMatching(/\n99999\n100000$/),
    });
  });

  test('names a full disk that the program found', async () => {
    await expect(sh('echo "write: No space left on device" >&2; exit 1')).rejects.toMatchObject({
      code: 'exec-no-space',
      exitCode: 1,
    });
  });

  test('has no exit code when a signal ended the program', async () => {
    await expect(sh('kill -9 $$')).rejects.toMatchObject({ code: 'exec-failed', exitCode: undefined });
  });

  test.each<{ name: string; command: Command; code: string; message: string }>([
    {
      name: 'a missing program',
      command: { argv: ['no-such-program-at-all'], signal: never },
      code: 'exec-not-found',
      message: 'running no-such-program-at-all',
    },
    {
      name: 'a missing working directory',
      command: { argv: ['true'], cwd: '/no/such/directory', signal: never },
      code: 'exec-failed',
      message: 'working directory /no/such/directory does not exist',
    },
    {
      name: 'a file that is not executable',
      command: { argv: ['/etc/passwd'], signal: never },
      code: 'exec-failed',
      message: 'running /etc/passwd',
    },
  ])('run() reports $name', async ({ command, code, message }) => {
    await expect(runner.run(command)).rejects.toMatchObject({
      code,
      message: expect.stringContaining(message),
    });
  });

  test('run() truncates output above the limit without failing', async () => {
    const { stdout } = await sh('head -c 20000000 /dev/zero | tr "\\0" a');
    expect(stdout).toHaveLength(8 * 1024 * 1024);
  });
});

describe('ending a program', () => {
  test('a program that exceeds its timeout fails with its own error code', async () => {
    await expect(sh('echo waiting for godot; sleep 30', { timeoutMs: 200 })).rejects.toMatchObject({
      code: 'exec-timeout',
      outputTail: 'waiting for godot',
    });
  });

  test('run() starts no program when the signal has fired before', async () => {
    const reason = new Error('enough');
    await expect(sh('true', { signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
  });

  test('the abort signal ends the whole process group', async () => {
    const { reason, signal, onLine } = abortAtFirstLine();
    let pids: string[] = [];
    const heard = (line: string): void => {
      pids = line.split(' ');
      onLine();
    };
    await expect(sh('sleep 30 & echo $$ $!; wait', { signal, onLine: heard })).rejects.toBe(reason);
    expect(pids).toHaveLength(2);
    expect(await Promise.all(pids.map(runs))).toEqual([false, false]);
  });

  test('the abort signal gives a program time to clean up', async () => {
    const { signal, onLine } = abortAtFirstLine();
    const lines: string[] = [];
    const script = 'trap "echo cleaned; exit 0" TERM; echo ready; while :; do sleep 0.05; done';
    const heard = (line: string): void => {
      lines.push(line);
      if (line === 'ready') onLine();
    };
    await expect(sh(script, { signal, onLine: heard })).rejects.toThrow('enough');
    expect(lines).toContain('cleaned');
  });

  test('the abort signal kills the program after the grace period', async () => {
    const { reason, signal, onLine } = abortAtFirstLine();
    const startedMs = clock.monotonicMs();
    const script = 'trap "" TERM; echo ready; while :; do sleep 0.05; done';
    await expect(sh(script, { signal, onLine })).rejects.toBe(reason);
    expect(clock.monotonicMs() - startedMs).toBeGreaterThan(4500);
  }, 15_000);

  test('run() leaves no listener on the signal, however the program ends', async () => {
    const controller = new AbortController();
    const { signal } = controller;
    const outcomes = [
      sh('true', { signal }),
      sh('exit 1', { signal }),
      sh('sleep 30', { signal, timeoutMs: 50 }),
    ];
    await Promise.allSettled(outcomes);
    await Promise.allSettled([runner.run({ argv: ['no-such-program-at-all'], signal })]);
    expect(getEventListeners(signal, 'abort')).toHaveLength(0);
    const aborted = sh('sleep 30', { signal });
    controller.abort();
    await expect(aborted).rejects.toThrow();
    expect(getEventListeners(signal, 'abort')).toHaveLength(0);
  });
});
