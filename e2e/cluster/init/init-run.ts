import type { ChildProcess } from 'node:child_process';
import { createInterface } from 'node:readline';
import type { Harness } from '../../machines/harness.ts';

/** One line of the CLI's `--output json`. */
export interface OutputLine {
  readonly type: string;
  readonly code?: string;
  readonly text?: string;
  readonly message?: string;
  readonly fix?: string;
  readonly exit?: string;
  readonly data?: unknown;
}

/** A run of the CLI with `--output json`, and the lines that it has printed. */
export class InitRun {
  readonly lines: OutputLine[] = [];
  readonly child: ChildProcess;
  /** Resolves with the exit code; -1 when a signal ended the CLI. */
  readonly ended: Promise<number>;
  readonly #waiting: (() => void)[] = [];
  #over = false;
  /** Whether `kill` was called. */
  killed = false;

  constructor(bench: Harness, args: readonly string[], env: Readonly<Record<string, string>> | 'built' = {}) {
    const all = ['--output', 'json', '--events', 'stdout', ...args];
    this.child = env === 'built' ? bench.startBuiltCli(...all) : bench.startCliIn(env, ...all);
    if (this.child.stdout === null) throw new Error('the CLI has no standard output');
    createInterface({ input: this.child.stdout }).on('line', (line) => {
      this.lines.push(JSON.parse(line) as OutputLine);
      this.#wake();
    });
    this.ended = new Promise((resolve, reject) => {
      this.child.once('error', reject);
      this.child.once('close', (code) => {
        this.#over = true;
        this.#wake();
        resolve(code ?? -1);
      });
    });
  }

  get over(): boolean {
    return this.#over;
  }

  /**
   * Returns the first line, starting at index `from`, that matches; undefined if the run ends without such a
   * line.
   */
  async until(fits: (line: OutputLine) => boolean, from = 0): Promise<OutputLine | undefined> {
    for (let at = from; ; at++) {
      while (at >= this.lines.length) {
        if (this.#over) return undefined;
        await new Promise<void>((resolve) => this.#waiting.push(resolve));
      }
      const line = this.lines[at];
      if (line !== undefined && fits(line)) return line;
    }
  }

  #wake(): void {
    for (const wake of this.#waiting.splice(0)) wake();
  }

  async kill(): Promise<void> {
    this.killed = true;
    this.child.kill('SIGKILL');
    await this.ended;
  }

  /** The line with the result or the error of the run. */
  outcome(): OutputLine | undefined {
    return this.lines.findLast(({ type }) => type === 'result' || type === 'error');
  }

  said(): string {
    return this.lines.map((line) => JSON.stringify(line)).join('\n');
  }
}
