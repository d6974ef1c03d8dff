import { ExecError, type Command, type CommandResult, type CommandRunner } from '../../exec/index.ts';

/** The result of a fake program: its output, or an error to throw. Undefined: success without output. */
export type CommandAnswer = (
  argv: readonly string[],
  command: Command,
) => string | { readonly exitCode: number; readonly output: string } | undefined;

/** Programs that a function replaces. Every run is recorded. */
export class FakeCommands implements CommandRunner {
  readonly runs: (readonly string[])[] = [];
  readonly #answer: CommandAnswer;

  constructor(answer: CommandAnswer = () => undefined) {
    this.#answer = answer;
  }

  async run(command: Command): Promise<CommandResult> {
    command.signal.throwIfAborted();
    this.runs.push(command.argv);
    const answer = this.#answer(command.argv, command);
    const kept = (output: string): string => (command.isOutputSecret === true ? '' : output);
    if (typeof answer === 'object')
      throw new ExecError('exec-failed', {
        argv: command.argv,
        exitCode: answer.exitCode,
        outputTail: kept(answer.output),
      });
    return { exitCode: 0, stdout: kept(answer ?? ''), stderr: '' };
  }
}
