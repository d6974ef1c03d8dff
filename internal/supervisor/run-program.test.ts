import { describe, expect, test } from '@jest/globals';
import { EventEmitter, once } from 'node:events';
import { PassThrough } from 'node:stream';
import { defineErrors, errorClass, EXIT_CODES, fault } from '../errors/index.ts';
import { runProgram } from './run-program.ts';

class SampleError extends errorClass(defineErrors({ 'sample-wrong': fault.operator.usage('-', '-') })) {}

/** A process whose output can be read. */
function fakeProcess() {
  const [stdout, stderr] = [new PassThrough(), new PassThrough()];
  const process = Object.assign(new EventEmitter(), { stdout, stderr, exitCode: undefined });
  return process as unknown as NodeJS.Process & { readonly stdout: PassThrough };
}

describe('runProgram()', () => {
  test.each(['SIGTERM', 'SIGINT'] as const)('%s aborts the program and is no failure', async (name) => {
    const process = fakeProcess();
    const running = runProgram(process, 'sample', async ({ signal }) => {
      await once(signal, 'abort');
      signal.throwIfAborted();
    });
    process.emit(name, name);
    await running;
    expect([process.exitCode, process.stdout.read()]).toEqual([undefined, null]);
  });

  test.each([
    {
      name: 'the exit code that belongs to the error code',
      error: new SampleError('sample-wrong', 'reading x'),
      exit: 'usage' as const,
    },
    {
      name: 'the exit code `internal` if the error has no code',
      error: new Error('x'),
      exit: 'internal' as const,
    },
  ])('logs a failure, and sets $name', async ({ error, exit }) => {
    const process = fakeProcess();
    await runProgram(process, 'sample', () => Promise.reject(error));
    expect(process.exitCode).toBe(EXIT_CODES[exit].number);
    const line = JSON.parse(String(process.stdout.read())) as object;
    expect(line).toMatchObject({ level: 'error', path: 'sample', message: 'stopping' });
  });
});
