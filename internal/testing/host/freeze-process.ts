import { readdir, readFile } from 'node:fs/promises';
import { kill } from 'node:process';
import { SystemClock } from '../../clock/index.ts';

/** Against hanging only: a thread in the middle of a write to a busy disk stops behind it. */
const LONGEST_MS = 20_000;
const LOOK_MS = 5;
const clock = new SystemClock();
const never = new AbortController().signal;

/** SIGSTOP: resolves when no thread of it runs any more, since the signal alone only asks for that. */
export async function freezeProcess(pid: number): Promise<void> {
  kill(pid, 'SIGSTOP');
  const untilMs = clock.monotonicMs() + LONGEST_MS;
  for (;;) {
    const states = await Promise.all((await readdir(`/proc/${pid}/task`)).map((tid) => stateOf(pid, tid)));
    if (states.every((state) => state === 'T')) return;
    if (clock.monotonicMs() > untilMs)
      throw new Error(`freezing process ${pid}: after ${LONGEST_MS} ms its threads are ${states.join('')}`);
    await clock.sleep(LOOK_MS, never);
  }
}

/** proc_pid_stat(5): the letter behind the name in parentheses, which may hold any other character. */
async function stateOf(pid: number, tid: string): Promise<string> {
  const stat = await readFile(`/proc/${pid}/task/${tid}/stat`, 'latin1').catch((error: unknown) => {
    if (error instanceof Error && 'code' in error && (error.code === 'ENOENT' || error.code === 'ESRCH'))
      return undefined; // it has ended, and others may have begun
    throw error;
  });
  return stat === undefined ? 'X' : stat.charAt(stat.lastIndexOf(')') + 2);
}
