import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';

const COMMAND_MS = 240_000;
/** An emulated machine on a busy host boots in minutes. */
const BOOT_MS = 300_000;
/** QEMU, which is killed when the process that started it ends. */
const QEMU = ['setpriv', '--pdeathsig', 'KILL', 'qemu-system-x86_64'] as const;

/**
 * A machine with a shell, from an initrd of `packShellRoot()`. It ends with the process that started it, also when that is killed.
 */
export class Machine implements AsyncDisposable {
  readonly #qemu: ChildProcess;
  readonly #waiting: ((line: string | undefined) => void)[] = [];
  readonly #lines: string[] = [];
  #commands = 0;
  /** Why the machine does not run any more. */
  #ended: Error | undefined;

  /**
   * @param argv the arguments of QEMU, with the shell at the second serial port, which is standard input and output
   * @param command what runs with these arguments
   */
  constructor(argv: readonly string[], command: readonly [string, ...string[]] = QEMU) {
    const [program, ...options] = command;
    const qemu = spawn(program, [...options, ...argv], { stdio: ['pipe', 'pipe', 'inherit'] });
    createInterface({ input: qemu.stdout }).on('line', (line) => {
      const next = this.#waiting.shift();
      if (next === undefined) this.#lines.push(line);
      else next(line);
    });
    const name = command.at(-1) ?? program;
    qemu
      .once('error', (cause) => this.#end(new Error(`${name} did not start`, { cause })))
      .once('exit', (code, killer) =>
        this.#end(new Error(`${name} ended with ${killer ?? `status ${code}`}`)),
      );
    // A write to a program that has ended fails; its end, which follows, says more.
    qemu.stdin.on('error', () => undefined);
    this.#qemu = qemu;
  }

  /** Resolves when the machine has booted. */
  async started(): Promise<void> {
    const signal = AbortSignal.timeout(BOOT_MS);
    while ((await this.#next('booting', signal)).trim() !== '::started');
  }

  /** The output of a command of the shell. @throws Error if it fails */
  async sh(command: string, limitMs = COMMAND_MS): Promise<string> {
    const { status, output } = await this.try(command, limitMs);
    if (status !== 0) throw new Error(`${command}: status ${status}: ${output}`);
    return output;
  }

  /** Like `sh()`, for a command that may fail. */
  async try(
    command: string,
    limitMs = COMMAND_MS,
  ): Promise<{ readonly status: number; readonly output: string }> {
    const end = `::end ${++this.#commands} `;
    this.#qemu.stdin?.write(`(\n${command}\n) < /dev/null 2>&1; status=$?; echo; echo "${end}$status"\n`);
    const signal = AbortSignal.timeout(limitMs);
    const lines: string[] = [];
    for (;;) {
      const line = (await this.#next(command, signal)).replace(/\r$/, '');
      if (line.startsWith(end))
        return { status: Number(line.slice(end.length)), output: lines.join('\n').trim() };
      lines.push(line);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const { exitCode, signalCode } = this.#qemu;
    if (exitCode === null && signalCode === null && this.#qemu.kill('SIGKILL'))
      await once(this.#qemu, 'exit');
  }

  async #next(what: string, signal: AbortSignal): Promise<string> {
    const line = this.#lines.shift();
    if (line !== undefined) return line;
    this.#refuseEnded(what);
    const { promise, resolve } = Promise.withResolvers<string | undefined>();
    this.#waiting.push(resolve);
    const late = (): void => resolve(undefined);
    signal.addEventListener('abort', late, { once: true });
    const found = await promise;
    signal.removeEventListener('abort', late);
    if (found !== undefined) return found;
    this.#refuseEnded(what);
    throw new Error(`${what}: no answer of the machine`);
  }

  #refuseEnded(what: string): void {
    if (this.#ended !== undefined) throw new Error(`${what}: the machine has ended`, { cause: this.#ended });
  }

  #end(reason: Error): void {
    this.#ended ??= reason;
    for (const resolve of this.#waiting.splice(0)) resolve(undefined);
  }
}
