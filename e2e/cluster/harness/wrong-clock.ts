import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Harness } from '../../machines/harness.ts';
import type { StoryCluster } from './story-cluster.ts';

const DROP_IN = '/etc/systemd/system/bootstrapper.service.d/clock.conf';
const LIBRARY = '/usr/lib/shifted-clock.so';

/** A machine whose agent sees a wrong clock. All other programs on the machine see the right time. */
export class WrongClock {
  readonly #cluster: StoryCluster;
  readonly #machine: string;

  private constructor(cluster: StoryCluster, machine: string) {
    this.#cluster = cluster;
    this.#machine = machine;
  }

  static async on(bench: Harness, cluster: StoryCluster, machine: string): Promise<WrongClock> {
    const built = join(bench.directory, 'shifted-clock.so');
    const source = join(import.meta.dirname, 'shifted-clock.c');
    const { signal } = bench;
    await bench.machines.commands.run({
      argv: ['gcc', '-shared', '-fPIC', '-O2', '-o', built, source, '-ldl'],
      signal,
    });
    const node = await (await bench.cluster(cluster.name)).node(machine);
    await node.exec(['sh', '-ec', `cat > ${LIBRARY}`], { input: await readFile(built), signal });
    return new WrongClock(cluster, machine);
  }

  /** Restarts the agent with a clock that is this many seconds ahead; behind if negative. */
  async shift(seconds: number): Promise<void> {
    const environment = `LD_PRELOAD=${LIBRARY} CLOCK_SHIFT_SECONDS=${seconds}`;
    await this.#restart(
      `mkdir -p "$(dirname ${DROP_IN})" && printf '[Service]\\nEnvironment=${environment}\\n' > ${DROP_IN}`,
    );
  }

  async restore(): Promise<void> {
    await this.#restart(`rm ${DROP_IN}`);
  }

  async #restart(before: string): Promise<void> {
    await this.#cluster.sh(
      this.#machine,
      `${before} && systemctl daemon-reload && systemctl restart bootstrapper`,
    );
  }
}
