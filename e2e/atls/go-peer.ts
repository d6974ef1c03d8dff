import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { env } from 'node:process';
import { createInterface } from 'node:readline';
import { ExecaRunner } from '../../internal/exec/index.ts';
import { runGo } from '../run-go.ts';

const SOURCE = join(import.meta.dirname, '../atls-peer');

/** Output of the Go program, one JSON object for each line. */
export interface PeerEvent {
  readonly event: 'listening' | 'attested' | 'refused' | 'failed';
  readonly address?: string;
  readonly peer?: string;
  readonly answer?: string;
  readonly reason?: string;
}

export interface PeerOptions {
  readonly context: string;
  readonly show: string;
  readonly accept: string;
  /** An intentional protocol violation, by its name in `e2e/atls-peer/handshake.go`. */
  readonly fault?: string;
}

/** The second implementation of aTLS/1, built from source for this story. */
export class GoPeer implements AsyncDisposable {
  readonly #directory: string;
  readonly #commands = new ExecaRunner({ path: env['PATH'] ?? '' });
  readonly #signal = AbortSignal.timeout(240_000);

  private constructor(directory: string) {
    this.#directory = directory;
  }

  static async build(): Promise<GoPeer> {
    const peer = new GoPeer(await mkdtemp(join(tmpdir(), 'cluster-atls-peer-')));
    await runGo(['build', '-trimpath', '-o', peer.#program, '.'], { cwd: SOURCE, signal: peer.#signal });
    return peer;
  }

  get #program(): string {
    return join(this.#directory, 'atls-peer');
  }

  [Symbol.asyncDispose](): Promise<void> {
    return rm(this.#directory, { recursive: true, force: true });
  }

  /** Returns the test vectors of docs/atls.md, computed by the Go program. */
  async vector(): Promise<Record<string, string>> {
    const { stdout } = await this.#commands.run({ argv: [this.#program, 'vector'], signal: this.#signal });
    return JSON.parse(stdout) as Record<string, string>;
  }

  /** Connects as a client and makes one call. */
  async call(address: string, options: PeerOptions): Promise<PeerEvent> {
    const argv = [this.#program, 'client', '--address', address, ...flagsOf(options)] as const;
    const { stdout } = await this.#commands.run({ argv: [...argv], signal: this.#signal, timeoutMs: 30_000 });
    return JSON.parse(stdout) as PeerEvent;
  }

  /** Starts a server that runs until it is disposed. */
  async serve(options: PeerOptions): Promise<GoServer> {
    const child = spawn(this.#program, ['server', ...flagsOf(options)], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
    const next = async (): Promise<PeerEvent> => {
      const { value, done } = await lines.next();
      if (done === true) throw new Error('the Go server ended');
      return JSON.parse(value) as PeerEvent;
    };
    const { address = '' } = await next();
    const stop = async (): Promise<void> => {
      const ended = once(child, 'exit');
      child.kill();
      await ended;
    };
    return { address, next, [Symbol.asyncDispose]: stop };
  }
}

export interface GoServer extends AsyncDisposable {
  readonly address: string;
  next(): Promise<PeerEvent>;
}

function flagsOf({ context, show, accept, fault = '' }: PeerOptions): string[] {
  return ['--context', context, '--show', show, '--accept', accept, '--fault', fault];
}
