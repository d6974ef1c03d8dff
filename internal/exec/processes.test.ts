import { describe, expect, test } from '@jest/globals';
import { HostProcesses } from './processes.ts';

const processes = new HostProcesses({ path: '/usr/bin:/bin' });
const signal = new AbortController().signal;

describe('runAttached()', () => {
  test.each([
    { script: 'exit 0', want: 0 },
    { script: 'exit 42', want: 42 },
    { script: 'kill -TERM $$', want: 143 },
    { script: 'kill -KILL $$', want: 137 },
  ])('returns the same exit code as a shell: $script → $want', async ({ script, want }) => {
    expect(await processes.runAttached({ argv: ['sh', '-c', script], signal })).toBe(want);
  });

  test('passes only the given environment to the program', async () => {
    const script = '[ "$(env | grep -vE "^(PWD|SHLVL|_|PATH)=" | sort | tr "\\n" " ")" = "A=1 " ]';
    expect(await processes.runAttached({ argv: ['sh', '-c', script], env: { A: '1' }, signal })).toBe(0);
  });

  test('reports a program that does not exist', async () => {
    await expect(processes.runAttached({ argv: ['no-such-program'], signal })).rejects.toMatchObject({
      code: 'exec-not-found',
    });
  });
});

describe('startDetached()', () => {
  test('starts a program in a session of its own; sendSignal() signals it and detects its end', async () => {
    const pid = await processes.startDetached({ argv: ['sleep', '60'] });
    expect(processes.sendSignal(pid, 0)).toBe(true);
    expect(processes.sendSignal(-pid, 'SIGKILL')).toBe(true); // the program leads its own process group
    while (processes.sendSignal(pid, 0)) await new Promise((resolve) => setTimeout(resolve, 5));
    expect(processes.sendSignal(pid, 'SIGTERM')).toBe(false);
  });

  test('rejects when the program does not exist', async () => {
    await expect(processes.startDetached({ argv: ['no-such-program'] })).rejects.toMatchObject({
      code: 'exec-not-found',
    });
  });
});
