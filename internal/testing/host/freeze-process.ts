import { readdir, readFile } from 'node:fs/promises';
import { kill } from 'node:process';
import { SystemClock } from '../../clock/index.ts';

/** Long, because a thread that writes to a busy disk stops only after its write. The limit only ends a wait that hangs. */
const LONGEST_MS = 20_000;
const LOOK_MS = 5;
const clock = new SystemClock();
const never = new AbortController().signal;

/**
 * Sends SIGSTOP and resolves when no thread of the process runs any more. The signal alone only requests
 * the stop.
 */
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

/**
 * The state letter after the name in parentheses (proc_pid_stat(5)). The name may contain any character.
 */
async function stateOf(pid: number, tid: string): Promise<string> {
  const stat = await readFile(`/proc/${pid}/task/${tid}/stat`, 'latin1').catch((error: unknown) => {
    if (error instanceof Error && 'code' in error && (error.code === 'ENOENT' || error.code === 'ESRCH'))
      return undefined; // the thread has ended, and new threads may have started
    throw error;
  });
  return stat === undefined ? 'X' : stat.charAt(stat.lastIndexOf(')') + 2);
}
