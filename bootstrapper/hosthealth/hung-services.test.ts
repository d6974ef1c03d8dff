import { afterEach, describe, expect, test } from '@jest/globals';
import { FakeClock, FakeUnits, MemoryFiles, settle, superviseForTest } from '../../internal/testing/index.ts';
import { readFile } from 'node:fs/promises';
import { PORTS } from '../../internal/endpoint/index.ts';
import { HungServices } from './hung-services.ts';
import { withHung } from './host-services.ts';
import { SilentError } from './local-probes.ts';

const UNIT = 'cluster-etcd-state.service';
const STARTED_MS = Date.UTC(2026, 0, 1);
const open: AsyncDisposable[] = [];
afterEach(async () => {
  for (const each of open.splice(0)) await each[Symbol.asyncDispose]();
});

type State = 'answers' | 'silent' | 'refuses';

async function create({ isInPod = false, isUrgent = true } = {}) {
  const clock = new FakeClock(STARTED_MS);
  const files = new MemoryFiles();
  const units = new FakeUnits();
  units.active.add(UNIT);
  const now = { state: 'answers' as State, probes: 0, isControlPlane: true, probeMs: 2_000 };
  const probe = async (signal: AbortSignal): Promise<void> => {
    now.probes++;
    if (now.state === 'refuses') throw new Error('connect ECONNREFUSED');
    if (now.state === 'answers') return;
    await clock.sleep(now.probeMs, signal);
    throw new SilentError();
  };
  /** Writes what the process `pid` has used of the processor. */
  const use = async (ticks: number, pid = 1): Promise<void> => {
    await files.makeDirectory(`/proc/${pid}`);
    await files.writeAtomic(
      `/proc/${pid}/stat`,
      `${pid} (e t) c) T 1 1 1 0 -1 0 0 0 0 0 ${ticks} 7 0 0 20 0`,
    );
  };
  await use(100);
  const hung = new HungServices({ clock, files, units }, [
    { name: 'state etcd', unit: isInPod ? undefined : UNIT, isOfControlPlane: true, isUrgent, probe },
  ]);
  const tree = superviseForTest((scope) => hung.watch(scope, () => now.isControlPlane), { clock });
  open.push(tree);
  await settle();
  const kills = () => units.moves.length;
  const why = () => hung.problems()[0]?.why;
  return { clock, files, units, now, use, hung, tree, kills, why };
}

describe('HungServices', () => {
  test('looks every 4 s, and asks systemd nothing while a service answers', async () => {
    const { clock, now, units, kills, why } = await create();
    units.status = () => Promise.reject(new Error('asked'));
    await clock.advance(40_000);
    expect([now.probes, kills(), why()]).toEqual([11, 0, undefined]);
  });

  test('looks every 12 s at a service whose hang takes no lease, and every second while it is silent', async () => {
    const { clock, now, kills } = await create({ isUrgent: false });
    await clock.advance(40_000);
    expect(now.probes).toBe(4);
    now.state = 'silent';
    await clock.advance(8_000);
    expect(now.probes).toBe(5);
    await clock.advance(6_000);
    expect(now.probes).toBe(7);
    await clock.advance(5_000);
    expect(kills()).toBe(1);
  });

  test('kills a process that did not answer and did not run for 10 s, 15 s after it has stopped at the latest', async () => {
    const { clock, now, units, why, tree } = await create();
    await clock.advance(1);
    now.state = 'silent'; // just after a look
    await clock.advance(14_998);
    expect([units.moves, why()]).toEqual([[], undefined]);
    await clock.advance(1);
    expect(units.moves).toEqual([`kill ${UNIT}`]);
    now.state = 'answers';
    expect(why()).toBe('was hung (no answer for 11s): killed and started again at 00:00:15Z');
    expect(tree.records.map(({ message }) => message)).toContain('killing a hung service');
    await clock.advance(119_000);
    expect(why()).toMatch(/^was hung/);
    await clock.advance(2_000);
    expect(why()).toBeUndefined();
  });

  test('gives a process that uses the processor 60 s', async () => {
    const { clock, now, use, kills } = await create();
    now.state = 'silent';
    await clock.advance(10_000);
    await use(101);
    await clock.advance(53_000);
    expect(kills()).toBe(0);
    await clock.advance(6_000);
    expect(kills()).toBe(1);
  });

  test('gives a process that cannot be measured 60 s', async () => {
    const { clock, now, files, kills } = await create();
    await files.remove('/proc/1/stat');
    now.state = 'silent';
    await clock.advance(55_000);
    expect(kills()).toBe(0);
    await clock.advance(12_000);
    expect(kills()).toBe(1);
  });

  test('starts to count again when the service answers, or refuses connections while it starts', async () => {
    const { clock, now, kills } = await create();
    for (const state of ['answers', 'refuses'] as const) {
      now.state = 'silent';
      await clock.advance(9_000);
      now.state = state;
      await clock.advance(4_000);
      expect(kills()).toBe(0);
    }
    await clock.advance(60_000);
    expect(kills()).toBe(0);
  });

  test('does not kill a process that is not the one that was silent, or a unit that systemd stops', async () => {
    const { clock, now, units, use, kills } = await create();
    await use(100, 2);
    now.state = 'silent';
    await clock.advance(10_000);
    units.pids.set(UNIT, 2);
    await clock.advance(7_000);
    expect(kills()).toBe(0);
    units.active.delete(UNIT);
    await clock.advance(60_000);
    expect(kills()).toBe(0);
  });

  test('ignores what it has seen before it was stopped itself', async () => {
    const { clock, now, kills } = await create();
    now.state = 'silent';
    await clock.advance(10_000);
    now.probeMs = 3_001; // the timer of the probe is late, so this program did not run
    await clock.advance(60_000);
    expect(kills()).toBe(0);
    now.probeMs = 2_000;
    const sleep = clock.sleep.bind(clock);
    clock.sleep = (ms, signal) => sleep(ms === 2_000 ? ms : ms + 1_001, signal);
    await clock.advance(60_000);
    expect(kills()).toBe(0);
    clock.sleep = sleep;
    await clock.advance(20_000);
    expect(kills()).toBe(1);
  });

  test('repeats a restart that did not help after a minute, then after two', async () => {
    const { clock, now, units, use, why } = await create();
    now.state = 'silent';
    const killedAtSeconds: number[] = [];
    const kill = units.kill.bind(units);
    units.kill = async (unit) => {
      killedAtSeconds.push(Math.round((clock.nowMs() - STARTED_MS) / 1_000));
      await kill(unit);
      await use(1, units.pids.get(unit));
    };
    await clock.advance(45_000);
    expect(why()).toBe('does not answer, although it was restarted');
    await clock.advance(200_000);
    expect(killedAtSeconds).toHaveLength(3);
    const [first = 0, second = 0, third = 0] = killedAtSeconds;
    expect([first < 16, second - first, third - second]).toEqual([
      true,
      expect.closeTo(61, -1),
      expect.closeTo(121, -1),
    ]);
  });

  test('says why a hung service stays hung', async () => {
    const { clock, now, units, why } = await create();
    units.kill = () => Promise.reject(new Error('systemd does not answer'));
    now.state = 'silent';
    await clock.advance(16_000);
    expect(why()).toBe('is hung (no answer for 11s), and cannot be killed: systemd does not answer');
  });

  test('leaves a program in a pod to the kubelet, and says that it answers again', async () => {
    const { clock, now, units, why } = await create({ isInPod: true });
    now.state = 'silent';
    await clock.advance(90_000);
    expect([units.moves, why()]).toEqual([[], 'does not answer: the kubelet restarts it']);
    now.state = 'refuses';
    await clock.advance(4_000);
    expect(why()).toBe('does not answer: the kubelet restarts it');
    now.state = 'answers';
    await clock.advance(4_000);
    expect(why()).toMatch(/^did not answer; it answers again since 00:01:[0-9]{2}Z$/);
    await clock.advance(120_000);
    expect(why()).toBeUndefined();
  });

  test('does not look for services of control planes on a worker', async () => {
    const { clock, now } = await create();
    const { probes } = now;
    now.isControlPlane = false;
    await clock.advance(20_000);
    expect(now.probes).toBe(probes);
  });
});

test('withHung() names each service once, hung ones first', () => {
  const service = (name: string, why: string) => ({ name, why });
  expect(
    withHung([service('kubelet', 'was hung')], [service('containerd', 'x'), service('kubelet', 'no answer')]),
  ).toEqual([service('kubelet', 'was hung'), service('containerd', 'x')]);
});

test('flannel serves its health at the port that the agent asks', async () => {
  const chart = new URL('../../cli/charts/flannel/templates/daemonset.yaml', import.meta.url);
  const text = await readFile(chart, 'utf8');
  expect(text).toContain(`- --healthz-port=${PORTS.flannelHealth}\n`);
  expect(text).toContain(`port: ${PORTS.flannelHealth}\n`);
});
