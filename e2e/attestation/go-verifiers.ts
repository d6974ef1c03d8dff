import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { Readable } from 'node:stream';
import { runGo } from '../run-go.ts';

const SOURCE = join(import.meta.dirname, '../attestation-peers');
/** The Go verifiers log to standard output, so this file descriptor carries their verdicts. */
const VERDICTS_FD = 3;

/** Evidence that a Go verifier judges; see `e2e/attestation-peers/main.go`. */
export interface PeerCase {
  readonly kind: 'snp' | 'tdx' | 'tpm' | 'log';
  readonly nowMs: number;
  readonly parts: Readonly<Record<string, Uint8Array>>;
  readonly pcrs?: ReadonlyMap<number, Uint8Array>;
  readonly repeat?: number;
}

export interface PeerVerdict {
  readonly accepted: boolean;
  readonly error?: string;
  readonly nsPerCase: number;
}

/** A program with the verifiers go-sev-guest, go-tdx-guest and go-attestation, which is built for this run. */
export class GoVerifiers implements AsyncDisposable {
  readonly #directory: string;
  readonly #child: ChildProcess;
  readonly #waiting = new Map<number, (verdict: PeerVerdict) => void>();
  #asked = 0;

  private constructor(directory: string) {
    this.#directory = directory;
    this.#child = spawn(join(directory, 'peers'), [], { stdio: ['pipe', 'ignore', 'inherit', 'pipe'] });
    const verdicts = this.#child.stdio[VERDICTS_FD];
    if (!(verdicts instanceof Readable))
      throw new Error('starting the Go verifiers: they have no output pipe');
    createInterface({ input: verdicts }).on('line', (line) => {
      const { id, ...verdict } = JSON.parse(line) as PeerVerdict & { readonly id: number };
      this.#waiting.get(id)?.(verdict);
      this.#waiting.delete(id);
    });
  }

  static async build(): Promise<GoVerifiers> {
    const directory = await mkdtemp(join(tmpdir(), 'cluster-attestation-peers-'));
    await runGo(['build', '-trimpath', '-o', join(directory, 'peers'), '.'], { cwd: SOURCE });
    return new GoVerifiers(directory);
  }

  /** The source directory of a Go module, with its test data. */
  static async moduleDirectory(module: string): Promise<string> {
    return runGo(['list', '-m', '-f', '{{.Dir}}', module], { cwd: SOURCE });
  }

  judge({ kind, nowMs, parts, pcrs, repeat }: PeerCase): Promise<PeerVerdict> {
    const id = ++this.#asked;
    const request = {
      id,
      kind,
      now: Math.floor(nowMs / 1000),
      parts: Object.fromEntries(Object.entries(parts).map(([name, value]) => [name, base64(value)])),
      ...(pcrs && { pcrs: Object.fromEntries([...pcrs].map(([pcr, value]) => [pcr, base64(value)])) }),
      ...(repeat !== undefined && { repeat }),
    };
    return new Promise((resolve) => {
      this.#waiting.set(id, resolve);
      this.#child.stdin?.write(`${JSON.stringify(request)}\n`);
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const ended = once(this.#child, 'exit');
    this.#child.stdin?.end();
    await ended;
    await rm(this.#directory, { recursive: true, force: true });
  }
}

function base64(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('base64');
}
