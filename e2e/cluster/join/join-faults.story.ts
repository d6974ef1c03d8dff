import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createHarness } from '../../machines/harness.ts';
import { requireApproval, StoryCluster, reprovision } from '../harness/story-cluster.ts';
import { eventually } from '../harness/node-shell.ts';
import { SlowConnection } from '../harness/slow-connection.ts';
import { WrongClock } from '../harness/wrong-clock.ts';

const MINUTE = 60;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const YEAR = 365 * DAY;
/**
 * A threshold in bytes: hellos and evidence are shorter, a ticket is longer because it contains the cluster's
 * settings.
 */
const SHORT_ANSWER = 8192;
/** Tolerance: by how much the measured clock offset may differ from the configured one. */
const LATE_S = 30;
/** Ports of a control plane that a joining machine calls. */
const PORTS = { join: 9090, curator: 9091, api: 6443 } as const;

/** A rule of iptables: its table, and the arguments after `-I` or `-D`. */
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

await test('machines join despite network faults and wrong clocks', async (story) => {
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
  /** How often the audit log says that the machine joined. */
  const joinsOf = async (machine: string): Promise<number> => {
    const entries = await cluster.audit();
    return entries.filter(({ detail }) => detail.verdict === 'joined' && detail.name === machine).length;
  };
  /** Applies firewall rules on the machine while the work runs. */
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

  await story.test('a joining machine resumes after its network was cut for a minute', async (step) => {
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
    step.diagnostic(`Ready ${Date.now() - healedMs} ms after the network was restored`);
  });

  await story.test(
    'a machine joins with 5 % packet loss and a latency of 50 ms to its control plane',
    async (step) => {
      for (const each of Object.values(wires)) each.delayMs = 50;
      const lossy = dropping(
        ...['INPUT ! -i lo', 'OUTPUT ! -o lo'].map(
          (rule) => `${rule} -m statistic --mode random --probability 0.05`,
        ),
      );
      // NAT rules apply to new connections only, so the agent is restarted under these rules.
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
          assert.ok(longestAnswer > 0, `no response came from ${way} over the slow connection`);
        }
        assert.ok(
          wire.longestAnswer > SHORT_ANSWER,
          'a response as long as a ticket came over the slow connection',
        );
      });
      for (const each of Object.values(wires)) each.delayMs = 0;
      assert.equal(await joinsOf('n3'), 1);
    },
  );

  const clock = await WrongClock.on(bench, cluster, 'n4');
  for (const seconds of [6 * MINUTE, -6 * MINUTE, HOUR, -HOUR, YEAR, -90 * DAY])
    await story.test(
      `a clock that is ${seconds} s off: the machine is not admitted, and machine and cluster report the offset`,
      async () => {
        await clock.shift(seconds);
        await eventually(
          'the machine logs its clock offset',
          120,
          async () => (await cluster.log('n4')).split('\n').slice(-30), // shown when the offset does not appear
          (lines) => Math.abs(lastOffsetIn(lines.join('\n')) - seconds) < LATE_S,
        );
        await eventually(
          'the join record shows the same offset',
          60,
          () => requestOf('n4'),
          (request) =>
            request?.code === 'join-clock-off' && Math.abs(request.clockOffsetMs / 1000 - seconds) < LATE_S,
        );
        assert.equal(await cluster.members(), 3);
      },
    );

  await story.test(
    'an agent does not try to join while its clock shows a time before the agent was released',
    async () => {
      await clock.shift(-2 * YEAR);
      await eventually(
        'the machine logs why',
        120,
        async () => (await cluster.log('n4')).split('\n').slice(-30),
        (lines) => lines.some((line) => /"preflight-clock".*is before 2026-01-01/.test(line)),
      );
      assert.equal(await cluster.members(), 3);
    },
  );

  await story.test(
    'a machine whose clock is almost five minutes ahead joins once, although the response with its ticket is lost',
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
      assert.match(await cluster.log('n4'), /session ended before the ticket arrived/);
      assert.deepEqual([await cluster.members(), await joinsOf('n4')], [4, 1]);
      await clock.restore();
      await cluster.allReady(['n1', 'n2', 'n3', 'n4'], 60);
    },
  );

  await story.test('a machine whose clock is almost five minutes behind joins', async () => {
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

/** The last clock offset in the agent's log, seconds; negative when the machine is behind the cluster. */
function lastOffsetIn(log: string): number {
  const [, seconds, way] = [...log.matchAll(/this machine is (\d+)s (ahead|behind)/g)].at(-1) ?? [];
  return Number(seconds ?? Number.NaN) * (way === 'behind' ? -1 : 1);
}
