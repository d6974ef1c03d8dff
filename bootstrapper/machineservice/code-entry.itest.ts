import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { appendFile, readdir, readFile, stat } from 'node:fs/promises';
import { afterEach, expect, test } from '@jest/globals';
import { SystemClock } from '../../internal/clock/index.ts';
import { rawX25519, x25519PrivateKey } from '../../internal/crypto/index.ts';
import { ExecaRunner } from '../../internal/exec/index.ts';
import { DiskFiles } from '../../internal/file/index.ts';
import { Secret } from '../../internal/secret/index.ts';
import {
  answerConsoleChallenge,
  createConsoleChallenge,
  decodeTyped,
  wrapForConsole,
} from '../../internal/statedisk/index.ts';
import { closeOpened, createMemoryLogger, opened, temporaryDirectory } from '../../internal/testing/index.ts';
import { findCodeSources, keyOfCode, readCodes, type CodeSources } from './code-entry.ts';

const KEY = new Uint8Array(32).fill(7);
const UUID = 'e69a2e66-2bc8-4695-b852-75f129bb9e54';
const OWNER = new Secret(new Uint8Array(32).fill(5));
const commands = new ExecaRunner({ path: '/usr/sbin:/usr/bin:/sbin:/bin' });
afterEach(closeOpened);

/** A terminal of the kernel, as a serial console is one. script(1) holds its other end. */
async function openTerminal() {
  const script = spawn('script', ['-qec', 'tty; exec sleep 1000', '/dev/null'], {
    stdio: ['pipe', 'pipe', 'ignore'],
  });
  let shown = '';
  script.stdout.on('data', (bytes: Buffer) => void (shown += String(bytes)));
  const shows = async (text: string, after = 0): Promise<void> => {
    while (!shown.slice(after).includes(text)) await once(script.stdout, 'data');
  };
  opened({
    [Symbol.asyncDispose]: async () => {
      if (script.kill('SIGKILL')) await once(script, 'exit');
    },
  });
  await shows('\n');
  return {
    path: shown.trim(),
    shows,
    shown: () => shown,
    type: (text: string) => void script.stdin.write(text),
  };
}

/** The kernel ends of a terminal that is nobody's controlling terminal, as a serial console without a login is none. perl(1) holds its other end. */
async function openFreeTerminal() {
  const program = `
    open(M, "+<", "/dev/ptmx") or die;
    my $number = pack("i", 0);
    ioctl(M, 0x40045431, $number) or die; # TIOCSPTLCK
    ioctl(M, 0x80045430, $number) or die; # TIOCGPTN
    $| = 1;
    print "/dev/pts/", unpack("i", $number), "\\n";
    if (my $pid = fork) { while (sysread(STDIN, my $typed, 4096)) { syswrite(M, $typed) } kill 9, $pid }
    else { while (sysread(M, my $shown, 4096)) { print $shown } }`;
  const perl = spawn('perl', ['-e', program], { stdio: ['pipe', 'pipe', 'ignore'] });
  let shown = '';
  perl.stdout.on('data', (bytes: Buffer) => void (shown += String(bytes)));
  const shows = async (text: string): Promise<void> => {
    while (!shown.includes(text)) await once(perl.stdout, 'data');
  };
  opened({
    [Symbol.asyncDispose]: async () => {
      perl.stdin.end();
      await once(perl, 'exit');
    },
  });
  await shows('\n');
  return { path: shown.trim(), shows, type: (text: string) => void perl.stdin.write(text) };
}

/** A machine that reads codes. Resolves when a code has opened its disk. */
function startMachine(sources: CodeSources) {
  const recipients = [rawX25519(x25519PrivateKey(OWNER.reveal()))];
  const recovery = wrapForConsole(
    UUID,
    recipients.map((recipient) => ({ recipient, secret: new Secret(KEY) })),
  );
  const challenge = createConsoleChallenge({ uuid: UUID, recovery, recipients });
  const bytes = decodeTyped('challenge', challenge.text);
  if (bytes.kind === 'mistyped') throw new Error(bytes.why);
  const code = answerConsoleChallenge(bytes.bytes, OWNER)?.reveal() ?? '';
  const until = new AbortController();
  const received = Promise.withResolvers<Uint8Array>();
  const { log, records } = createMemoryLogger();
  const reading = readCodes({
    ...{ commands, sources, log, clock: new SystemClock(), until: until.signal },
    ...{ text: `${challenge.text}\n`, signal: new AbortController().signal },
    open: (typed) => {
      received.resolve(keyOfCode(challenge, typed).reveal());
      return Promise.resolve(0);
    },
  }).finally(() => undefined);
  opened({
    [Symbol.asyncDispose]: async () => {
      until.abort(new Error('the disk is open'));
      await reading;
    },
  });
  return { code, challenge, received: received.promise, logged: () => JSON.stringify(records) };
}

test('a person types the code at a terminal, after a typing error and a wrong code', async () => {
  const terminal = await openTerminal();
  const { code, challenge, received, logged } = startMachine({ paths: [terminal.path], areConsoles: true });
  const again = 'Type the code and press Enter';
  terminal.type('\n');
  await terminal.shows(challenge.text.split('\n').at(-1) ?? '');
  await terminal.shows(again);
  const shownBefore = terminal.shown().length;
  terminal.type(`${code.slice(0, -1)}\u007f\u007f\n`);
  await terminal.shows('machineservice-code-mistyped');
  await terminal.shows(again, shownBefore);
  terminal.type(`${code.toLowerCase()}\r`);
  expect(await received).toEqual(KEY);
  await terminal.shows('The state disk is open.');
  expect(logged()).not.toContain(code.slice(0, 11));
});

test('no program that reads a console makes it its controlling terminal, which is hung up when the program ends', async () => {
  const terminal = await openFreeTerminal();
  startMachine({ paths: [terminal.path], areConsoles: true });
  terminal.type('\n');
  await terminal.shows('Type the code and press Enter'); // the answer to the line: the console is read
  const { rdev } = await stat(terminal.path);
  expect(await terminalsOfPrograms()).not.toContain(rdev);
});

/** The controlling terminals of all programs, as device numbers (proc_pid_stat(5), field 7). */
async function terminalsOfPrograms(): Promise<readonly number[]> {
  const pids = (await readdir('/proc')).filter((name) => /^[0-9]+$/.test(name));
  const stats = pids.map((pid) => readFile(`/proc/${pid}/stat`, 'latin1').catch(() => '')); // it may have ended
  return (await Promise.all(stats)).map((text) =>
    Number(text.slice(text.lastIndexOf(')') + 2).split(' ')[4]),
  );
}

test('root writes the code into a named pipe, also after a wrong one', async () => {
  const { path } = opened(await temporaryDirectory());
  const kernel = { readAttribute: () => Promise.resolve(new Uint8Array()) };
  const signal = new AbortController().signal;
  const pipe = join(path, 'code');
  const sources = await findCodeSources({ files: new DiskFiles(), kernel, commands }, pipe, signal);
  expect((await new DiskFiles().stat(pipe))?.mode).toBe(0o600);
  const { code, received } = startMachine(sources);
  await appendFile(pipe, 'wrong\n');
  // What is written while the wrong code is refused is dropped.
  let key: Uint8Array | undefined;
  received.then(
    (value) => (key = value),
    () => undefined,
  );
  for (const clock = new SystemClock(); key === undefined; await clock.sleep(200, signal))
    // The reader may end between two codes, while this one is written.
    await appendFile(pipe, `${code}\n`).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'EPIPE') throw error;
    });
  expect(key).toEqual(KEY);
});
