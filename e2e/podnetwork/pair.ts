import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { eventually } from '../cluster/harness/node-shell.ts';
import type { MachineFiles } from './machine-root.ts';

const MEMORY_MIB = 1024;
const COMMAND_MS = 240_000;
const BOOT_SECONDS = 300;

/** A machine with a shell. */
export class Machine implements AsyncDisposable {
  readonly #qemu: ChildProcess;
  readonly #waiting: ((line: string | undefined) => void)[] = [];
  readonly #lines: string[] = [];
  #commands = 0;

  /** @param argv the arguments of QEMU, with the shell at the second serial port, which is standard input and output */
  constructor(argv: readonly string[]) {
    const qemu = spawn('qemu-system-x86_64', argv, { stdio: ['pipe', 'pipe', 'inherit'] });
    createInterface({ input: qemu.stdout }).on('line', (line) => {
      const next = this.#waiting.shift();
      if (next === undefined) this.#lines.push(line);
      else next(line);
    });
    qemu.once('error', () => this.#end()).once('exit', () => this.#end());
    this.#qemu = qemu;
  }

  /** Resolves when the machine has booted. */
  async started(): Promise<void> {
    const signal = AbortSignal.timeout(BOOT_SECONDS * 1000);
    while ((await this.#next('booting', signal)).trim() !== '::started');
  }

  /** The output of a command of the shell. @throws Error if it fails */
  async sh(command: string): Promise<string> {
    const { status, output } = await this.try(command);
    if (status !== 0) throw new Error(`${command}: status ${status}: ${output}`);
    return output;
  }

  /** Like `sh()`, for a command that may fail. */
  async try(command: string): Promise<{ readonly status: number; readonly output: string }> {
    const end = `::end ${++this.#commands} `;
    this.#qemu.stdin?.write(`(\n${command}\n) < /dev/null 2>&1; status=$?; echo; echo "${end}$status"\n`);
    const signal = AbortSignal.timeout(COMMAND_MS);
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
    if (this.#qemu.exitCode !== null) throw new Error(`${what}: the machine has ended`);
    const { promise, resolve } = Promise.withResolvers<string | undefined>();
    this.#waiting.push(resolve);
    const late = (): void => resolve(undefined);
    signal.addEventListener('abort', late, { once: true });
    const found = await promise;
    signal.removeEventListener('abort', late);
    if (found === undefined) throw new Error(`${what}: no answer of the machine`);
    return found;
  }

  #end(): void {
    for (const resolve of this.#waiting.splice(0)) resolve(undefined);
  }
}

/** Two machines at both ends of a cable, of which QEMU writes every frame to a file. */
export interface Pair extends AsyncDisposable {
  readonly machines: readonly [Machine, Machine];
  readonly capture: string;
}

/** Boots both machines. Their addresses are 192.0.2.1, 192.0.2.2, fd00:192::1 and fd00:192::2. The emulation is slow, and the same everywhere. */
export async function bootPair(directory: string, { kernel, initrd }: MachineFiles): Promise<Pair> {
  const capture = join(directory, 'capture.pcap');
  const cable = join(directory, 'cable.sock');
  // On a busy host, an emulated timer is too late for the kernel's check of it (no_timer_check).
  const argvOf = (own: number, peer: number, net: readonly string[]): readonly string[] =>
    // prettier-ignore
    [
      '-machine', 'q35', '-accel', 'tcg,thread=multi', '-cpu', 'max,la57=off', '-smp', '1', '-m', String(MEMORY_MIB),
      '-nodefaults', '-display', 'none', '-no-reboot',
      '-serial', `file:${join(directory, `console-${own}.log`)}`, '-serial', 'stdio',
      '-kernel', kernel, '-initrd', initrd, '-append', `console=ttyS0 panic=-1 no_timer_check own=${own} peer=${peer}`,
      ...net, '-device', `virtio-net-pci,netdev=net,romfile=,mac=52:54:00:00:00:0${own}`,
    ];
  const end = (server: string): string => `stream,id=net,server=${server},addr.type=unix,addr.path=${cable}`;
  const dump = `filter-dump,id=dump,netdev=net,file=${capture},maxlen=65536`;
  const first = new Machine(argvOf(1, 2, ['-netdev', end('on'), '-object', dump]));
  const started: Machine[] = [first];
  const stop = async (): Promise<void> => {
    for (const machine of started) await machine[Symbol.asyncDispose]();
  };
  try {
    await eventually(
      'the cable',
      BOOT_SECONDS,
      () => stat(cable),
      (found) => found.isSocket(),
    );
    const second = new Machine(argvOf(2, 1, ['-netdev', end('off')]));
    started.push(second);
    await Promise.all([first.started(), second.started()]);
    return { machines: [first, second], capture, [Symbol.asyncDispose]: stop };
  } catch (error) {
    await stop();
    throw error;
  }
}
