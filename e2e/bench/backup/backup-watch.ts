import { setTimeout as delay } from 'node:timers/promises';
import type { LocalNode } from '../../../internal/localmachines/index.ts';
import type { BenchResult } from '../result.ts';

const MB = 1e6;
const POLL_MS = 250;
const STATE = '/var/lib/cluster';
/** File system in memory of a proof. */
const PROOF = '/run/cluster/backup-proof/memory';
const PROOF_UNIT = 'cluster-etcd-proof';

/** What a node does for a scheduled backup. */
export const STAGES = ['none', 'taken', 'restored', 'compared'] as const;
export type Stage = (typeof STAGES)[number];

/** The most anonymous memory that the main process of a unit may have. */
const UNITS = [
  { unit: 'bootstrapper', name: 'agent, while it takes and proves a backup of 1 GiB', limitMb: 128 },
  { unit: PROOF_UNIT, name: 'throwaway etcd that proves a backup of 1 GiB', limitMb: 1024 },
] as const;

/** Prints the stage, then lines of "UNIT KIB". */
const SCRIPT = `
  if systemctl --quiet is-active ${PROOF_UNIT}; then echo compared
  elif [ -n "$(ls -d ${STATE}/etcd-*/throwaway ${PROOF}/restored 2> /dev/null)" ]; then echo restored
  elif [ -n "$(find ${STATE}/backups/work ${PROOF} -mindepth 1 -print -quit 2> /dev/null)" ]; then echo taken
  else echo none; fi
  for unit in ${UNITS.map(({ unit }) => unit).join(' ')}; do
    pid=$(systemctl show --property MainPID --value $unit)
    [ "$pid" = 0 ] || sed -n "s/^RssAnon:[^0-9]*\\([0-9]*\\) kB$/$unit \\1/p" /proc/$pid/status 2> /dev/null
  done; true`;

/** Reads four times a second what a node does for a backup and how much memory that takes, until it is disposed. */
export class BackupWatch implements AsyncDisposable {
  #stage: Stage = 'none';
  readonly #highest = new Map<string, number>();
  readonly #stop = new AbortController();
  readonly #running: Promise<void>;

  constructor(node: LocalNode, signal: AbortSignal) {
    this.#running = this.#run(node, signal);
  }

  get stage(): Stage {
    return this.#stage;
  }

  /** The highest memory of each unit. */
  results(): readonly BenchResult[] {
    return UNITS.map(({ unit, name, limitMb }) => {
      const bytes = this.#highest.get(unit);
      if (bytes === undefined) throw new Error(`${unit} was never seen running`);
      return {
        name: `${name}: anonymous memory`,
        ...{ value: bytes / MB, unit: 'MB' as const, limit: limitMb },
        detail: 'the highest RssAnon, read four times a second',
      };
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    await this.#running;
  }

  async #run(node: LocalNode, signal: AbortSignal): Promise<void> {
    while (!this.#stop.signal.aborted) {
      const { stdout } = await node.exec(['sh', '-c', SCRIPT], { signal });
      const [stage, ...memory] = stdout.trim().split('\n');
      this.#stage = STAGES.find((each) => each === stage) ?? 'none';
      for (const line of memory) {
        const [unit = '', kib] = line.split(' ');
        this.#highest.set(unit, Math.max(this.#highest.get(unit) ?? 0, Number(kib) * 1024));
      }
      await delay(POLL_MS, undefined, { signal: this.#stop.signal }).catch(() => undefined);
    }
  }
}
