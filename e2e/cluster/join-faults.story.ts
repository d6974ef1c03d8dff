import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { createBench, type Bench } from '../machines/bench.ts';
import { JoiningCluster, reprovision } from './joining.ts';
import { eventually } from './node-shell.ts';
import { SlowWire } from './slow-wire.ts';

const HOUR = 3600;
const YEAR = 365 * 24 * HOUR;
const DROP_IN = '/etc/systemd/system/bootstrapper.service.d/clock.conf';
/** What a waiting machine's answers are shorter than, and a ticket is longer: it brings the cluster's settings. */
const SHORT_ANSWER = 2048;

interface WaitingJoin {
  readonly fingerprint: string;
}

/** A machine whose agent believes in another time. Everything else on the machine has the right one. */
class WrongClock {
  readonly #cluster: JoiningCluster;
  readonly #machine: string;

  private constructor(cluster: JoiningCluster, machine: string) {
    this.#cluster = cluster;
    this.#machine = machine;
  }

  static async on(bench: Bench, cluster: JoiningCluster, machine: string): Promise<WrongClock> {
    const library = join(bench.folder, 'shifted-clock.so');
    const source = join(import.meta.dirname, 'shifted-clock.c');
    const { signal } = bench;
    await bench.machines.commands.run({
      argv: ['gcc', '-shared', '-fPIC', '-O2', '-o', library, source, '-ldl'],
      signal,
    });
    const node = await (await bench.cluster(cluster.name)).node(machine);
    const place = ['sh', '-ec', 'cat > /usr/lib/shifted-clock.so'] as const;
    await node.exec([...place], { input: await readFile(library), signal });
    return new WrongClock(cluster, machine);
  }

  async shift(seconds: number): Promise<void> {
    const environment = `LD_PRELOAD=/usr/lib/shifted-clock.so CLOCK_SHIFT_SECONDS=${seconds}`;
    await this.#cluster.sh(
      this.#machine,
      `mkdir -p "$(dirname ${DROP_IN})" && printf '[Service]\nEnvironment=${environment}\n' > ${DROP_IN} && systemctl daemon-reload && systemctl restart bootstrapper`,
    );
  }

  async mend(): Promise<void> {
    await this.#cluster.sh(
      this.#machine,
      `rm ${DROP_IN} && systemctl daemon-reload && systemctl restart bootstrapper`,
    );
  }
}

await test('machines join through faults of network and clock', async (story) => {
  await using bench = await createBench();
  const cluster = new JoiningCluster(bench, 'faults');
  await cluster.machines({ controlPlanes: 1, workers: 3 }, (yaml) =>
    yaml.replace(/^join:\n(?: .*\n)*/m, 'join:\n  policy: approve\n'),
  );
  const first = await cluster.address('n1');
  const outside = first.replace(/\.\d+$/, '.1');
  await using wire = await SlowWire.lay(outside, { host: first, port: 9090 });
  await cluster.init();

  const waitingAs = async (machine: string): Promise<WaitingJoin> => {
    const fingerprint = await cluster.run(machine, 'cat', '/var/lib/cluster/machine/fingerprint');
    const { joins } = await cluster.ask<{ joins: readonly WaitingJoin[] }>('node', 'ls', '--joins');
    const found = joins.find((each) => each.fingerprint === fingerprint);
    assert.ok(found !== undefined, `${machine} has not asked`);
    return found;
  };
  const approve = async (machine: string): Promise<void> => {
    await eventually(
      `${machine} waits for an operator`,
      180,
      () => waitingAs(machine),
      () => true,
    );
    const fingerprint = await cluster.run(machine, 'cat', '/var/lib/cluster/machine/fingerprint');
    await cluster.ask('node', 'approve', fingerprint, '--name', machine);
  };

  await story.test('cut off for a minute while it is let in, it goes on by itself', async () => {
    const wall = (what: 'I' | 'D') =>
      cluster.sh(
        'n2',
        `iptables -${what} OUTPUT -d ${first} -j DROP && iptables -${what} INPUT -s ${first} -j DROP`,
      );
    await eventually(
      'n2 waits for an operator',
      180,
      () => waitingAs('n2'),
      () => true,
    );
    await wall('I');
    const since = Date.now();
    await approve('n2');
    await eventually(
      'a minute has passed',
      70,
      () => Promise.resolve(Date.now() - since),
      (passedMs) => passedMs > 60_000,
    );
    assert.doesNotMatch(await cluster.readiness(), /n2/);
    await wall('D');
    await cluster.allReady(['n1', 'n2'], 300);
  });

  await story.test('with 5 % loss and 50 ms on the way it joins', async () => {
    wire.delayMs = 50;
    const loss = (what: 'I' | 'D') =>
      cluster.sh(
        'n3',
        ['INPUT', 'OUTPUT']
          .map((chain) => `iptables -${what} ${chain} -m statistic --mode random --probability 0.05 -j DROP`)
          .join(' && '),
      );
    await loss('I');
    await reprovision(cluster, 'n3', (provisioning) => ({ ...provisioning, joinEndpoints: [wire.endpoint] }));
    await approve('n3');
    await cluster.allReady(['n1', 'n2', 'n3'], 300);
    await loss('D');
    wire.delayMs = 0;
  });

  const clock = await WrongClock.on(bench, cluster, 'n4');
  for (const seconds of [HOUR, -HOUR, YEAR, -YEAR])
    await story.test(
      `a clock that is ${seconds} s off: nobody is let in, and the offset is told`,
      async () => {
        await clock.shift(seconds);
        await eventually(
          'the machine says how far its clock is off',
          120,
          () => cluster.run('n4', 'journalctl', '-u', 'bootstrapper', '-o', 'cat', '--no-pager', '-n', '60'),
          (log) => Math.abs(lastOffsetIn(log) - seconds) < 60,
        );
        assert.equal(await cluster.members(), 3);
      },
    );

  await story.test(
    'four minutes are within the tolerance; the answer to its ticket request is lost, it is one member',
    async () => {
      await reprovision(cluster, 'n4', (provisioning) => ({
        ...provisioning,
        joinEndpoints: [wire.endpoint],
      }));
      await clock.shift(240);
      await eventually(
        'n4 waits for an operator',
        180,
        () => waitingAs('n4'),
        () => true,
      );
      wire.loseAnswerAfter(SHORT_ANSWER);
      await approve('n4');
      await cluster.allReady(['n1', 'n2', 'n3', 'n4'], 300);
      assert.equal(wire.cuts, 1);
      assert.equal(await cluster.members(), 4);
      await clock.mend();
      await cluster.allReady(['n1', 'n2', 'n3', 'n4'], 60);
    },
  );
});

/** The newest offset that the agent told, s: ahead of the cluster or, negative, behind it. */
function lastOffsetIn(log: string): number {
  const [, seconds, way] = [...log.matchAll(/this machine is (\d+) s (ahead|behind)/g)].at(-1) ?? [];
  return Number(seconds ?? Number.NaN) * (way === 'behind' ? -1 : 1);
}
