import type { ChildProcess } from 'node:child_process';
import type { CliResult } from '../../machines/harness.ts';

/** Resolves when the program has printed matching text on stdout or stderr. */
export function waitForOutput(cli: ChildProcess, what: RegExp): Promise<void> {
  return new Promise((resolve, reject) => {
    let text = '';
    const listen = (chunk: Buffer): void => {
      text += chunk.toString();
      if (what.test(text)) resolve();
    };
    cli.stdout?.on('data', listen);
    cli.stderr?.on('data', listen);
    cli.once('close', (code) => reject(new Error(`it ended with ${code} before it said ${what}: ${text}`)));
  });
}

/** Collects all output of the program until it ends. */
export function waitForExit(cli: ChildProcess): Promise<CliResult> {
  return new Promise((resolve) => {
    let stdout = '';
    let stderr = '';
    cli.stdout?.on('data', (chunk: Buffer) => (stdout += chunk.toString()));
    cli.stderr?.on('data', (chunk: Buffer) => (stderr += chunk.toString()));
    cli.once('close', (code) => resolve({ code: code ?? -1, stdout, stderr }));
  });
}
