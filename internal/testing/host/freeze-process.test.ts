import { expect, test } from '@jest/globals';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { execPath } from 'node:process';
import { freezeProcess } from './freeze-process.ts';

test('freezeProcess() resolves when all threads are stopped, busy threads too', async () => {
  const busy = spawn(execPath, ['-e', 'process.stdout.write("runs"); for (;;) Buffer.alloc(64);'], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const ended = once(busy, 'exit');
  try {
    await once(busy.stdout, 'data');
    const pid = busy.pid ?? NaN;
    await freezeProcess(pid);
    const states = readdirSync(`/proc/${pid}/task`).map((tid) =>
      readFileSync(`/proc/${pid}/task/${tid}/stat`, 'latin1').replace(/^.*\) (.).*$/s, '$1'),
    );
    expect(states.length).toBeGreaterThan(1);
    expect(new Set(states)).toEqual(new Set(['T']));
  } finally {
    busy.kill('SIGKILL');
    await ended;
  }
});

test('freezeProcess() throws for a process that does not exist', async () => {
  const gone = spawn(execPath, ['--version'], { stdio: 'ignore' });
  await once(gone, 'exit');
  await expect(freezeProcess(gone.pid ?? NaN)).rejects.toMatchObject({ code: 'ESRCH' });
});
