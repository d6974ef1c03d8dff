import { PassThrough } from 'node:stream';
import type { Command } from 'commander';
import { keyOf } from '../../cli/answers/ready-answer.ts';
import { runApp } from '../../cli/app/index.ts';
import { SystemClock } from '../../internal/clock/index.ts';
import { COMMANDS } from '../../cli/app/index.ts';
import { createInertProgram } from '../../cli/app/program.ts';

/** A command line and its output. */
export interface ReadyAnswer {
  readonly args: readonly string[];
  readonly text: string;
}

/** Runs the program for all command lines whose output depends only on their arguments. */
export async function collectAnswers(): Promise<readonly ReadyAnswer[]> {
  const answers: ReadyAnswer[] = [];
  for (const args of await answerable()) answers.push({ args, text: await ask(args) });
  return answers;
}

/** The content of `cli/answers/ready.ts`. A text that several command lines print is stored once. */
export async function readyModule(): Promise<string> {
  const answers = await collectAnswers();
  const texts = [...new Set(answers.map(({ text }) => text))];
  const keys = Object.fromEntries(answers.map(({ args, text }) => [keyOf(args), texts.indexOf(text)]));
  return `export const READY_TEXTS = ${JSON.stringify(texts)};\nexport const READY_KEYS = ${JSON.stringify(keys)};\n`;
}

async function answerable(): Promise<readonly (readonly string[])[]> {
  const program = await createInertProgram(COMMANDS);
  const paths = commandPaths(program, []);
  const shells = program.commands.find((command) => command.name() === 'completion')?.registeredArguments[0];
  return [
    [],
    ['--version'],
    ['help'],
    ['--help'],
    ['-h'],
    ...paths.map((path) => ['help', ...path]),
    ...paths.flatMap((path) => [
      [...path, '--help'],
      [...path, '-h'],
    ]),
    ...(shells?.argChoices ?? []).map((shell) => ['completion', shell]),
  ];
}

function commandPaths(command: Command, path: readonly string[]): readonly (readonly string[])[] {
  return command.commands.flatMap((each) => {
    const own = [...path, each.name()];
    return [own, ...commandPaths(each, own)];
  });
}

/** The output of the program. @throws Error when it fails or writes to stderr */
async function ask(args: readonly string[]): Promise<string> {
  const [out, err] = [new PassThrough(), new PassThrough()];
  const code = await runApp({
    args,
    env: {},
    home: '/',
    cwd: '/',
    streams: { in: new PassThrough(), out, err },
    output: { closed: new AbortController().signal, flush: async () => undefined },
    clock: new SystemClock(),
    signal: new AbortController().signal,
    readDescriptor: () =>
      Promise.reject(new TypeError('a command that reads a descriptor has no ready answer')),
    createPorts: () => Promise.resolve({} as never), // a command that uses a port has no ready answer
  });
  const complaint = String(err.read() ?? '');
  if (code !== 0 || complaint !== '') {
    throw new Error(`running cluster ${args.join(' ')}: exit code ${code}: ${complaint}`);
  }
  return String(out.read() ?? '');
}
