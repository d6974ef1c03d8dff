import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createHarness } from '../../machines/harness.ts';
import { requireApproval, StoryCluster, reprovision } from '../harness/story-cluster.ts';
import { eventually } from '../harness/node-shell.ts';
import { SlowConnection } from '../harness/slow-connection.ts';
import { WrongClock } from '../harness/wrong-clock.ts';

const MINUTE = 60;
const HOUR = 60 * MINUTE;
const YEAR = 365 * 24 * HOUR;
/** Both ends' hellos and evidence are shorter, and a ticket is longer: it brings the cluster's settings. */
const SHORT_ANSWER = 8192;
/** What one machine's clock may be off by before a test has run. */
const LATE_S = 30;
/** Where a machine that joins calls its control plane: join service, curator, API server. */
const PORTS = { join: 9090, curator: 9091, api: 6443 } as const;

/** A rule of iptables: its table, and all behind `-I` or `-D`. */
interface FirewallRule {
  readonly table: 'filter' | 'nat';
  readonly rule: string;
}

interface WaitingJoin {
  readonly fingerprint: string;
  readonly state: string;
  readonly code: string;
  readonly clockOffsetMs: number;
}

await test('machines join through faults of network and clock', async (story) => {
  await using bench = await createHarness();
  const cluster = new StoryCluster(bench, 'faults');
  await cluster.machines({ controlPlanes: 1, workers: 4 }, requireApproval);
  const first = await cluster.address('n1');
  const outside = first.replace(/\.\d+$/, '.1');
  await using wire = await SlowConnection.open(outside, { host: first, port: PORTS.join });
  await using curatorWire = await SlowConnection.open(outside, { host: first, port: PORTS.curator });
  await using apiWire = await SlowConnection.open(outside, { host: first, port: PORTS.api });
  const wires = { join: wire, curator: curatorWire, api: apiWire };
  await cluster.init();

  const requestOf = async (machine: string): Promise<WaitingJoin | undefined> => {
    const fingerprint = await cluster.fingerprint(machine);
    const { joins } = await cluster.cliJson<{ joins: readonly WaitingJoin[] }>('node', 'ls', '--joins');
    return joins.find((each) => each.fingerprint === fingerprint);
  };
  const untilWaiting = (machine: string) =>
    eventually(
      `${machine} waits for an operator`,
      180,
      () => requestOf(machine),
      (request) => request?.state === 'pending',
    );
  const approve = async (machine: string): Promise<void> => {
    await untilWaiting(machine);
    await cluster.cliJson('node', 'approve', await cluster.fingerprint(machine), '--name', machine);
  };
  /** How often the cluster made a member of it. */
  const joinsOf = async (machine: string): Promise<number> => {
    const entries = await cluster.audit();
    return entries.filter(({ detail }) => detail.verdict === 'joined' && detail.name === machine).length;
  };
  /** Rules of the machine's own firewall, for as long as the work takes. */
  const under = async (machine: string, rules: readonly FirewallRule[], work: () => Promise<void>) => {
    const each = (what: 'I' | 'D') =>
      cluster.sh(
        machine,
        rules.map(({ table, rule }) => `iptables -t ${table} -${what} ${rule}`).join(' && '),
      );
    await each('I');
    try {
      await work();
    } finally {
      await each('D');
    }
  };

  await story.test('it resumes after its network was cut for a minute', async (step) => {
    await untilWaiting('n2');
    await under('n2', dropping(`OUTPUT -d ${first}`, `INPUT -s ${first}`), async () => {
      const since = Date.now();
      await approve('n2');
      await eventually(
        'a minute has passed',
        70,
        () => Promise.resolve(Date.now() - since),
        (passedMs) => passedMs > 60_000,
      );
      assert.equal(await cluster.members(), 1);
    });
    const healedMs = Date.now();
    await cluster.allReady(['n1', 'n2'], 300);
    assert.equal(await joinsOf('n2'), 1);
    step.diagnostic(`Ready ${Date.now() - healedMs} ms after the way was open again`);
  });

  await story.test('with 5 % loss, and 50 ms on every way to its control plane, it joins', async (step) => {
    for (const each of Object.values(wires)) each.delayMs = 50;
    const lossy = dropping(
      ...['INPUT ! -i lo', 'OUTPUT ! -o lo'].map(
        (rule) => `${rule} -m statistic --mode random --probability 0.05`,
      ),
    );
    // Connections of before stay as they are: the agent that is started under these rules has none.
    const late = (['join', 'curator', 'api'] as const).map((way): FirewallRule => {
      const called = `OUTPUT -d ${first} -p tcp --dport ${PORTS[way]}`;
      return { table: 'nat', rule: `${called} -j DNAT --to-destination ${wires[way].endpoint}` };
    });
    await under('n3', [...lossy, ...late], async () => {
      await cluster.run('n3', 'systemctl', 'restart', 'bootstrapper');
      await approve('n3');
      const approvedMs = Date.now();
      await cluster.allReady(['n1', 'n2', 'n3'], 300);
      step.diagnostic(`Ready ${Date.now() - approvedMs} ms after it was approved`);
      for (const [way, { longestAnswer }] of Object.entries(wires)) {
        step.diagnostic(`the longest answer of ${way} had ${longestAnswer} bytes`);
        assert.ok(longestAnswer > 0, `nothing came over the wire to ${way}`);
      }
      assert.ok(wire.longestAnswer > SHORT_ANSWER, 'a ticket came over the wire');
    });
    for (const each of Object.values(wires)) each.delayMs = 0;
    assert.equal(await joinsOf('n3'), 1);
  });

  const clock = await WrongClock.on(bench, cluster, 'n4');
  for (const seconds of [6 * MINUTE, -6 * MINUTE, HOUR, -HOUR, YEAR, -YEAR])
    await story.test(
      `a clock that is ${seconds} s off: it is not let in, and both sides say how far`,
      async () => {
        await clock.shift(seconds);
        await eventually(
          'the machine says how far its clock is off',
          120,
          async () => lastOffsetIn(await cluster.log('n4')),
          (offset) => Math.abs(offset - seconds) < LATE_S,
        );
        await eventually(
          'the cluster says so too',
          60,
          () => requestOf('n4'),
          (request) =>
            request?.code === 'join-clock-off' && Math.abs(request.clockOffsetMs / 1000 - seconds) < LATE_S,
        );
        assert.equal(await cluster.members(), 3);
      },
    );

  await story.test(
    'almost five minutes ahead it is let in; the answer to its ticket request is lost, and it is one member',
    async () => {
      await reprovision(cluster, 'n4', (provisioning) => ({
        ...provisioning,
        joinEndpoints: [wire.endpoint],
      }));
      await clock.shift(5 * MINUTE - LATE_S);
      await untilWaiting('n4');
      wire.loseAnswerAfter(SHORT_ANSWER);
      await approve('n4');
      await cluster.allReady(['n1', 'n2', 'n3', 'n4'], 300);
      assert.equal(wire.cuts, 1);
      assert.match(await cluster.log('n4'), /the ticket did not come over the session that was admitted/);
      assert.deepEqual([await cluster.members(), await joinsOf('n4')], [4, 1]);
      await clock.restore();
      await cluster.allReady(['n1', 'n2', 'n3', 'n4'], 60);
    },
  );

  await story.test('with a clock almost five minutes behind it joins too', async () => {
    const behind = await WrongClock.on(bench, cluster, 'n5');
    await behind.shift(LATE_S - 5 * MINUTE);
    await approve('n5');
    await cluster.allReady(['n1', 'n2', 'n3', 'n4', 'n5'], 300);
    await behind.restore();
    await cluster.allReady(['n1', 'n2', 'n3', 'n4', 'n5'], 60);
    const { healthy } = await cluster.cliJson<{ healthy: boolean }>('status');
    assert.deepEqual([await cluster.members(), healthy], [5, true]);
    await cluster.expectNoInternet(['n1', 'n2', 'n3', 'n4', 'n5']);
  });
});

function dropping(...rules: readonly string[]): readonly FirewallRule[] {
  return rules.map((rule) => ({ table: 'filter', rule: `${rule} -j DROP` }));
}

/** The newest offset that the agent told, s: ahead of the cluster or, negative, behind it. */
function lastOffsetIn(log: string): number {
  const [, seconds, way] = [...log.matchAll(/this machine is (\d+)s (ahead|behind)/g)].at(-1) ?? [];
  return Number(seconds ?? Number.NaN) * (way === 'behind' ? -1 : 1);
}
