import { describe, expect, test } from '@jest/globals';
import { parse } from 'yaml';
import { PassThrough } from 'node:stream';
import { FakeClock, settle } from '../../internal/testing/index.ts';
import type { AppHost, HostFlags } from './host.ts';
import { createHost, formatBytes, formatShare, formatTable } from './index.ts';
import { ProgressMeter } from './progress-meter.ts';
import { RecordingHost } from './fake-host.ts';
import { TerminalHost } from './terminal-host.ts';

const MIB = 1024 ** 2;

const report = {
  code: 'x-failed',
  message: 'doing: because',
  fix: 'repair it',
  retryable: true,
  exit: 'partial',
  details: { a: 1 },
  stack: 'Error\n    at x',
} as const;

function start(
  flags: Partial<HostFlags> = {},
  options: {
    readonly terminal?: boolean;
    readonly columns?: number;
    readonly env?: Record<string, string>;
  } = {},
) {
  const clock = new FakeClock(Date.UTC(2026, 0, 1));
  const tty = options.terminal === true ? { isTTY: true, columns: options.columns ?? 100 } : {};
  const streams = {
    in: Object.assign(new PassThrough(), tty),
    out: Object.assign(new PassThrough(), tty),
    err: Object.assign(new PassThrough(), tty, {
      cursorTo: () => true,
      clearLine: () => true,
      moveCursor: () => true,
    }),
  };
  const read = (stream: PassThrough): string => String(stream.read() ?? '');
  const signal = new AbortController().signal;
  const host: AppHost = createHost(
    { output: 'human', events: 'stdout', headers: true, input: true, verbose: false, ...flags },
    { streams, clock, env: options.env ?? {}, signal },
  );
  return {
    host,
    clock,
    streams,
    out: (): string => read(streams.out),
    err: (): string => read(streams.err),
  };
}

/** Asks a question, and types `y` when it is shown. */
async function answerYes(
  host: AppHost,
  streams: { readonly in: PassThrough; readonly err: PassThrough },
): Promise<boolean> {
  const asked = Promise.withResolvers<void>();
  streams.err.on('data', (text: Buffer) => String(text).includes('Sure?') && asked.resolve());
  const answer = host.confirm('Sure?', false);
  await asked.promise;
  streams.in.write('y');
  await settle();
  streams.in.write('\r');
  return answer;
}

async function untilShown(isShown: () => boolean): Promise<void> {
  for (let tries = 0; tries < 1_000 && !isShown(); tries++) await settle();
}

/** A text with control characters, as a node, a pod or a chart could send it. */
const HOSTILE = 'x\u001b[2K\u009b1m\u202ey\r';

describe.each([
  { name: 'a pipe', flags: {}, terminal: false },
  { name: 'a pipe with --verbose', flags: { verbose: true }, terminal: false },
  { name: 'a terminal', flags: { verbose: true }, terminal: true },
  { name: 'a program that reads JSON', flags: { output: 'json' }, terminal: false },
] as const)('Host that writes to $name', ({ flags, terminal }) => {
  test('replaces control characters in texts of other machines', async () => {
    const { host, out, err } = start(flags, { terminal, env: { NO_COLOR: '1' } });
    host.say('a', HOSTILE, { value: HOSTILE });
    host.warn('b', HOSTILE);
    await host.step('c', HOSTILE, async (progress) => progress.update(HOSTILE));
    host.result({ value: HOSTILE }, () => HOSTILE);
    host.fail({ ...report, message: HOSTILE, fix: HOSTILE, details: { value: HOSTILE }, stack: HOSTILE });
    await settle();
    const written = out() + err().replace(/\u001b\[\?(25|2026)[lh]/g, ''); // removes the sequences with which the spinner itself hides the cursor and updates the screen
    expect(written).toContain(flags.output === 'json' ? '\\u202ey' : '?y');
    expect(written.match(/(?!\n)[\p{Cc}\p{Cf}]/u)).toBeNull();
  });
});

describe('Host with human-readable output', () => {
  test('indents further lines of an error', () => {
    const { host, err } = start();
    host.fail({ ...report, message: 'of a node\n✔ verified' });
    expect(err().split('\n').slice(0, 2)).toEqual(['error: of a node', '  ✔ verified']);
  });

  test('indents further lines of messages, warnings, steps and stacks, so that none looks like a line of the program', async () => {
    const { host, clock, err } = start({ verbose: true });
    const text = 'of a node\nerror: forged\n  aligned';
    host.say('a', text);
    host.warn('b', text);
    await host.step('c', text, async ({ update }) => {
      await clock.advance(11_000);
      update(text);
    });
    host.fail({ ...report, stack: text });
    const shown = err();
    expect(shown.match(/^error: .*/gm)).toEqual([`error: ${report.message}`]);
    expect(shown.match(/^ {2}error: forged\n {2}aligned/gm)?.length).toBeGreaterThanOrEqual(4);
  });
});

describe('output to a pipe', () => {
  test('writes messages to stderr and results to stdout', () => {
    const { host, out, err } = start();
    host.say('a', 'hello', { n: 1 });
    host.warn('b', 'careful');
    host.result({ x: 1 }, () => 'answer');
    expect({ out: out(), err: err() }).toEqual({ out: 'answer\n', err: 'hello\nwarning: careful\n' });
  });

  test('shows steps with their duration, and progress at most every ten seconds', async () => {
    const { host, clock, err } = start();
    await host.step('s', 'Working', async ({ update }) => {
      update('one');
      await clock.advance(11_000);
      update('two', { of: 4096, value: 2048, unit: 'bytes' });
      update('three');
    });
    expect(err()).toBe('Working …\n  two (50%, 2.0 KiB of 4.0 KiB)\nWorking: done in 11s\n');
  });

  test('repeats the title of a step after other output', async () => {
    const { host, clock, err } = start();
    await host.step('s', 'Working', async ({ update }) => {
      const tell = async (text: string): Promise<void> => {
        await clock.advance(11_000);
        update(text);
      };
      await tell('one');
      host.say('a', 'meanwhile');
      await tell('two');
      await tell('three');
    });
    expect(err()).toBe('Working …\n  one\nmeanwhile\n  Working: two\n  three\nWorking: done in 33s\n');
  });

  test('reports a stopped step and rethrows its error', async () => {
    const { host, err } = start();
    await expect(host.step('s', 'Working', () => Promise.reject(new Error('x')))).rejects.toThrow('x');
    expect(err()).toContain('Working: stopped after 0ms');
  });

  test('never prompts', async () => {
    const { host } = start();
    expect(host.interactive).toBe(false);
    expect(await host.confirm('Sure?', false)).toBe(false);
    expect(await host.confirm('Sure?', true)).toBe(true);
  });

  test('shows an error with its fix, whether it is retryable, and its code', () => {
    const { host, err } = start();
    host.fail(report);
    const shown = err();
    for (const part of ['doing: because', 'repair it', 'retryable: yes', 'cluster help errors x-failed'])
      expect(shown).toContain(part);
    expect(shown).not.toContain('at x');
  });

  test('shows codes, details and stack traces with --verbose', () => {
    const { host, err } = start({ verbose: true });
    host.say('a-code', 'hello', { n: 1 });
    host.fail(report);
    const shown = err();
    for (const part of ['[a-code]', '{"n":1}', 'at x']) expect(shown).toContain(part);
  });
});

describe('output in JSON', () => {
  test('writes 64-bit integers as numbers, and as strings where a number would be inexact', () => {
    const { host, out } = start({ output: 'json' });
    host.result({ entries: 3n, offset: -2n, most: 2n ** 64n - 1n }, () => '');
    expect(JSON.parse(out())).toMatchObject({
      data: { entries: 3, offset: -2, most: '18446744073709551615' },
    });
  });

  test('repeats unchanged progress every ten seconds, and shows changed progress at once', async () => {
    const { host, out, clock } = start({ output: 'json' });
    await host.step('s', 'Working', async ({ update }) => {
      for (let second = 0; second < 15; second++) {
        update('waiting');
        await clock.advance(1_000);
      }
      update('working');
    });
    const texts = out()
      .trim()
      .split('\n')
      .flatMap((line) => (JSON.parse(line) as { text?: string }).text ?? []);
    expect(texts).toEqual(['waiting', 'waiting', 'working']);
  });

  test('writes one JSON object per line to stdout, and nothing to stderr', async () => {
    const { host, out, err, clock } = start({ output: 'json' }, { terminal: true });
    host.say('a', 'hello', { n: 1 });
    await host.step('s', 'Working', async ({ update }) => {
      update('half', { of: 2, value: 1, unit: 'steps' });
      await clock.advance(1500);
    });
    host.result({ x: 1 }, () => 'not shown');
    host.fail(report);
    const lines = out()
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as Record<string, unknown>);
    expect(lines.map(({ type, code }) => [type, code])).toEqual([
      ['message', 'a'],
      ['step-started', 's'],
      ['step-progress', 's'],
      ['step-finished', 's'],
      ['result', undefined],
      ['error', 'x-failed'],
    ]);
    expect(lines[3]).toMatchObject({ durationMs: 1500 });
    expect(lines[5]).not.toHaveProperty('stack');
    expect(err()).toBe('');
    expect(host.interactive).toBe(false);
  });

  test('adds extra members to a result, which never replace its type', () => {
    const { host, out } = start({ output: 'json' });
    host.result({ x: 1 }, () => 'not shown', { verdict: 'refused', code: 'a-check', type: 'other' });
    expect(JSON.parse(out())).toMatchObject({
      type: 'result',
      verdict: 'refused',
      code: 'a-check',
      data: { x: 1 },
    });
  });
});

describe('ProgressMeter', () => {
  test('shows no rate and no time left in the first two seconds, and never for the unit "steps"', () => {
    const meter = new ProgressMeter();
    const text = (value: number, nowMs: number) =>
      meter.textOf({ of: 4 * MIB, value, unit: 'bytes' }, nowMs, { bar: false });
    expect(text(0, 0)).toBe('0%, 0 B of 4.0 MiB');
    expect(text(MIB, 1_999)).toBe('25%, 1.0 MiB of 4.0 MiB');
    expect(text(MIB, 2_000)).toBe('25%, 6.0s left, 512.0 KiB/s, 1.0 MiB of 4.0 MiB');
    const steps = new ProgressMeter();
    const step = (value: number, nowMs: number) =>
      steps.textOf({ of: 4, value, unit: 'steps' }, nowMs, { bar: true });
    expect([step(0, 0), step(2, 60_000)]).toEqual(['0 of 4', '2 of 4']);
  });

  test('shows the time left of a build, without a rate', () => {
    const meter = new ProgressMeter();
    meter.textOf({ of: 900, value: 0, unit: 'packages' }, 0, { bar: true });
    expect(meter.textOf({ of: 900, value: 300, unit: 'packages' }, 60_000, { bar: true })).toBe(
      '███░░░░░░░ 33%, 2m left, 300 of 900 packages',
    );
  });
});

describe('a host for a terminal', () => {
  const plain = (text: string): string => text.replace(/\u001b\[[0-9;?]*[A-Za-z]/g, '');

  test('leaves a line with the duration of each step; nested steps are indented', async () => {
    const { host, err, clock } = start({}, { terminal: true });
    expect(host).toBeInstanceOf(TerminalHost);
    await host.step('outer', 'Outer', () => host.step('inner', 'Inner', () => clock.advance(2000)));
    const lines = plain(err())
      .split('\n')
      .map((line) => line.replace(/^.*(?= {2}✔|^✔)/, ''));
    expect(lines.some((line) => line.includes('  ✔ Inner 2.0s'))).toBe(true);
    expect(lines.some((line) => line.includes('✔ Outer 2.0s'))).toBe(true);
  });

  test('shows an upload as a bar with time left and rate; bytes uploaded before the start do not count for the rate', async () => {
    const { host, err, clock } = start({}, { terminal: true });
    await host.step('s', 'Uploading', async ({ update }) => {
      update('kubelet', { of: 100 * MIB, value: 20 * MIB, unit: 'bytes' });
      await clock.advance(10_000);
      update('kubelet', { of: 100 * MIB, value: 40 * MIB, unit: 'bytes' });
      host.say('a', 'a line above, after which the step is drawn again');
    });
    expect(plain(err())).toContain(
      'Uploading – ████░░░░░░ 40%, 30s left, 2.0 MiB/s, 40.0 MiB of 100.0 MiB, kube',
    );
  });

  test('whose width is unknown gets plain lines, without an animation, and prompts', async () => {
    const { host, err, streams } = start({}, { terminal: true, columns: 0 });
    await host.step('outer', 'Outer', () => Promise.resolve());
    expect(plain(err())).toBe('Outer …\nOuter: done in 0ms\n');
    expect(host.interactive).toBe(true);
    expect(await answerYes(host, streams)).toBe(true);
  });

  test('uses no colors with NO_COLOR', () => {
    const colored = start({}, { terminal: true });
    colored.host.fail(report);
    expect(colored.err()).toContain('\u001b[');
    const plainHost = start({}, { terminal: true, env: { NO_COLOR: '1' } });
    plainHost.host.fail(report);
    expect(plainHost.err()).not.toContain('\u001b[3');
  });

  test('returns the default answer with --no-input', async () => {
    const { host } = start({ input: false }, { terminal: true });
    expect(host.interactive).toBe(false);
    expect(await host.confirm('Sure?', true)).toBe(true);
  });

  test('reads an answer from the keyboard', async () => {
    const { host, streams } = start({}, { terminal: true });
    expect(await answerYes(host, streams)).toBe(true);
  });

  test('hides typed keys from the first secret to the last, also keys that are typed before their question', async () => {
    const { host, streams } = start({}, { terminal: true });
    let isHidden = false;
    const lasting: boolean[] = [];
    const setRawMode = (isRaw: boolean): void => {
      isHidden = isRaw;
      queueMicrotask(() => lasting.push(isHidden));
    };
    Object.assign(streams.in, { setRawMode });
    let shown = '';
    streams.err.on('data', (text: Buffer) => (shown += String(text)));
    const answers = host.askSecrets(['First?', 'Second?']);
    await untilShown(() => shown.includes('First?'));
    streams.in.write('one\r');
    await untilShown(() => shown.includes('Second?'));
    streams.in.write('two\r');
    expect((await answers)?.map((answer) => answer.reveal())).toEqual(['one', 'two']);
    await settle();
    expect([...new Set(lasting.slice(0, -1))]).toEqual([true]);
    expect(lasting.at(-1)).toBe(false);
    expect(shown).not.toMatch(/one|two/);
  });

  test('asks for no secret and no lines with --no-input', async () => {
    const { host } = start({ input: false }, { terminal: true });
    expect(await host.askSecrets(['First?'])).toBeUndefined();
    expect(await host.askLines('Lines?', () => true)).toBe(false);
  });

  test('reads pasted and typed lines until the answer is complete, or the input ends', async () => {
    const { host, streams, err } = start({}, { terminal: true });
    const lines: string[] = [];
    const take = (line: string): boolean => lines.push(line) === 3;
    const answered = host.askLines('Lines?', take);
    streams.in.write('one\r\ntwo\nth');
    await settle();
    streams.in.write('ree\nfour\n');
    expect([await answered, lines]).toEqual([true, ['one', 'two', 'three']]);
    expect(plain(err())).toContain('Lines?\n');
    const next = host.askLines('More?', () => false);
    streams.in.end('five');
    expect(await next).toBe(false);
  });
});

describe('formats', () => {
  test('formatBytes() uses binary units, formatShare() names the unit of steps that can be measured', () => {
    expect([0, 1023, 1024, 97_622_000].map(formatBytes)).toEqual(['0 B', '1023 B', '1.0 KiB', '93.1 MiB']);
    expect(formatShare({ of: 0, value: 0, unit: 'bytes' })).toBe('0 B of 0 B');
    expect(formatShare({ of: 900, value: 12, unit: 'packages' })).toBe('12 of 900 packages');
    expect(formatShare({ of: 12, value: 3, unit: 'steps' })).toBe('3 of 12');
  });

  test('formatTable() keeps a cell in its row, whatever a node or a chart has put into it', () => {
    const hostile = 'n1\nn9    Ready\u001b[2K\u202e';
    const lines = formatTable(['NAME', 'STATUS'], [[hostile, 'NotReady']]).split('\n');
    expect(lines).toHaveLength(2);
    expect(lines[1]).toBe('n1↵n9    Ready?[2K?  NotReady');
  });

  test('formatTable() pads columns and trims line ends', () => {
    expect(formatTable(['A', 'LONG'], [['xyz', '1']])).toBe('A    LONG\nxyz  1');
  });
});

test('RecordingHost records calls in order and returns the given answers', async () => {
  const host = new RecordingHost({ answer: (question) => question === 'A?' });
  host.say('a', 'text');
  await host.step('s', 't', async () => undefined);
  expect(await host.confirm('A?', false)).toBe(true);
  expect(await host.confirm('B?', true)).toBe(false);
  host.result({ x: 1 }, () => 'x');
  expect(host.codes).toEqual(['a', 's']);
  expect(host.answered).toEqual({ x: 1 });
});

describe('results of commands that watch', () => {
  const show = (host: AppHost, value: number): void => host.result({ value }, () => `value ${value}`);
  const shown = (host: AppHost): void => {
    host.beginScreen();
    for (const value of [1, 1, 2]) show(host, value);
  };

  test('are written when they change, in a pipe and for programs', () => {
    const pipe = start();
    shown(pipe.host);
    expect(pipe.out()).toBe('value 1\nvalue 2\n');
    const program = start({ output: 'json' });
    shown(program.host);
    expect(program.out().trim().split('\n')).toHaveLength(2);
  });

  test('replace each other on a terminal', () => {
    const { host, out } = start({}, { terminal: true });
    shown(host);
    expect(out().split('\u001b[2J\u001b[H')).toEqual(['', 'value 1\n', 'value 1\n', 'value 2\n']);
  });
});

describe('output formats', () => {
  const listing = {
    data: { nodes: [{ name: 'n1', size: 5n }] },
    items: ['n1'],
    nameOf: (name: string) => name,
    columns: [{ title: 'NAME', textOf: (name: string) => name }],
  };
  const cases = [
    { flags: { output: 'yaml' }, want: 'nodes:\n- name: n1\n  size: 5\n' },
    { flags: { output: 'name' }, want: 'n1\n' },
    { flags: { headers: false }, want: 'n1\n' },
    { flags: {}, want: 'NAME\nn1\n' },
  ] as const;
  test.each(cases)('are applied to a list: $flags', ({ flags, want }) => {
    const { host, out } = start(flags);
    host.list(listing);
    expect(out()).toBe(want);
  });

  test('write nothing for an empty list of names', () => {
    const { host, out } = start({ output: 'name' });
    host.list({ ...listing, items: [] });
    expect(out()).toBe('');
  });

  test.each(['json', 'yaml'] as const)(
    'write points in time as RFC 3339 texts, and durations as numbers: -o %s',
    (output) => {
      const { host, out } = start({ output });
      const seenMs = Date.UTC(2026, 0, 2);
      host.result({ seenMs, list: [{ endsMs: BigInt(seenMs), tookMs: 1500, neverMs: 0 }] }, () => '');
      const written = parse(out()) as { data?: unknown };
      const shown = output === 'json' ? written.data : written;
      const time = '2026-01-02T00:00:00.000Z';
      expect(shown).toEqual({ seen: time, list: [{ ends: time, tookMs: 1500, neverMs: 0 }] });
    },
  );

  test.each([
    { events: 'stdout', out: ['message', 'result'], err: [] },
    { events: 'stderr', out: ['result'], err: ['message'] },
    { events: 'none', out: ['result'], err: [] },
  ] as const)('JSON events go to $events', ({ events, out, err }) => {
    const host = start({ output: 'json', events });
    host.host.say('greeting', 'hello');
    host.host.list(listing);
    const types = (text: string): string[] =>
      text
        .split('\n')
        .filter(Boolean)
        .map((line) => (JSON.parse(line) as { type: string }).type);
    expect([types(host.out()), types(host.err())]).toEqual([out, err]);
  });
});
