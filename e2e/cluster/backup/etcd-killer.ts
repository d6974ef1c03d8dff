import { readdir, readFile } from 'node:fs/promises';
import { kill } from 'node:process';
import { setTimeout as delay } from 'node:timers/promises';

const LOOK_MS = 2;
/** A process that has had another name in so many looks does not become etcdutl: programs call exec(2) at once. */
const LOOKS = 100;

/** A process on the host. Those of local machines are among them. */
interface Found {
  readonly pid: number;
  readonly argv: readonly string[];
}

/** A run of etcdutl that writes the data of one database. */
export interface EtcdutlRun {
  /** Parts of the path of its data directory. */
  readonly directory: readonly string[];
  /** Part of the control group of its processes, if several machines have such a directory. */
  readonly scope?: string;
}

/** Kills each run of etcdutl of one restore once: on the workstation, to prove the backup, and on the machine. */
export class EtcdutlKiller implements AsyncDisposable {
  readonly #missing: Set<EtcdutlRun>;
  readonly #over = new AbortController();
  readonly #work: Promise<void>;

  constructor(runs: readonly EtcdutlRun[]) {
    this.#missing = new Set(runs);
    this.#work = this.#watch();
  }

  /** The directories of the runs that were not killed yet. */
  missing(): readonly string[] {
    return [...this.#missing].map(({ directory }) => directory.join('…'));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#over.abort();
    await this.#work;
  }

  async #watch(): Promise<void> {
    const others = new Map<string, number>();
    while (!this.#over.signal.aborted && this.#missing.size > 0) {
      for (const { pid, argv } of await processesNamed('etcdutl', others)) {
        if (!argv.includes('restore')) continue;
        for (const run of this.#missing) {
          const isIts = argv.some((arg) => run.directory.every((part) => arg.includes(part)));
          if (!isIts || !(await isIn(pid, run.scope))) continue;
          if (tryKill(pid)) this.#missing.delete(run);
        }
      }
      await delay(LOOK_MS);
    }
  }
}

/** Kills both etcd members of a machine, if they run. @param scope part of the control group of its processes */
export async function killEtcd(scope: string): Promise<number> {
  let count = 0;
  for (const { pid } of await processesNamed('etcd')) if ((await isIn(pid, scope)) && tryKill(pid)) count++;
  return count;
}

async function isIn(pid: number, scope = ''): Promise<boolean> {
  return (await readFile(`/proc/${pid}/cgroup`, 'utf8').catch(() => '')).includes(scope);
}

/** @param others how many looks found each process under another name; those that are known well are not read again */
async function processesNamed(name: string, others = new Map<string, number>()): Promise<readonly Found[]> {
  const found: Found[] = [];
  const pids = (await readdir('/proc')).filter((each) => /^\d+$/.test(each));
  for (const pid of pids) {
    const looks = others.get(pid) ?? 0;
    if (looks >= LOOKS) continue;
    const comm = await readFile(`/proc/${pid}/comm`, 'utf8').catch(() => '');
    if (comm.trim() !== name && !comm.startsWith(`${name}-`)) {
      others.set(pid, looks + 1);
      continue;
    }
    const argv = (await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')).split('\0');
    found.push({ pid: Number(pid), argv });
  }
  const now = new Set(pids);
  for (const pid of others.keys()) if (!now.has(pid)) others.delete(pid);
  return found;
}

function tryKill(pid: number): boolean {
  try {
    return kill(pid, 'SIGKILL');
  } catch {
    return false; // it has ended by itself
  }
}
