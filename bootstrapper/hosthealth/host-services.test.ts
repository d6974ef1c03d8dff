import { describe, expect, test } from '@jest/globals';
import { UNIT_DIRECTORY } from '../../internal/platform/index.ts';
import { FakeClock, FakeUnits, MemoryFiles } from '../../internal/testing/index.ts';
import { HostServices } from './host-services.ts';

const UNIT = 'kubelet.service';
const signal = new AbortController().signal;
const LOG = [
  'E1128 09:53:05.238785   10803 run.go:72] "command failed" err="unknown flag: --network-plugin"',
  "kubelet.service: Failed with result 'exit-code'.",
];

async function createServices({ isInstalled = true } = {}) {
  const files = new MemoryFiles();
  await files.makeDirectory(UNIT_DIRECTORY);
  if (isInstalled) await files.writeAtomic(`${UNIT_DIRECTORY}/${UNIT}`, '[Service]');
  const units = new FakeUnits();
  units.logs.set(UNIT, LOG);
  units.active.add(UNIT);
  const asked: string[] = [];
  const status = units.status.bind(units);
  units.status = (unit) => (asked.push(unit), status(unit));
  const clock = new FakeClock();
  const now = { isWell: true, probes: 0 };
  const probe = (): Promise<void> => {
    now.probes++;
    return now.isWell ? Promise.resolve() : Promise.reject(new Error('connection refused'));
  };
  const services = new HostServices({ files, units, clock }, [
    { name: 'kubelet', unit: UNIT, isOfControlPlane: false, probe },
    {
      ...{ name: 'state etcd', unit: 'cluster-etcd-state.service', isOfControlPlane: true },
      probe: () => Promise.resolve(),
    },
  ]);
  const look = async () => (await services.findProblems(true, signal))[0]?.why;
  /** What is reported at each of these heartbeats. */
  const watch = async (heartbeats: number) => {
    const seen: (string | undefined)[] = [];
    for (let at = 0; at < heartbeats; at++) {
      await clock.advance(5_000);
      seen.push(await look());
    }
    return seen;
  };
  return { files, units, asked, clock, now, services, look, watch };
}

describe('HostServices.findProblems()', () => {
  test('probes a service that is well every 20 s, and starts no process', async () => {
    const { asked, now, watch } = await createServices();
    expect(await watch(8)).toEqual(Array(8).fill(undefined));
    expect([now.probes, asked]).toEqual([2, []]);
  });

  test('tells after 15 s why a service does not start, and nothing about a short restart', async () => {
    const { units, now, watch } = await createServices();
    await watch(4);
    now.isWell = false;
    expect(await watch(3)).toEqual([undefined, undefined, undefined]);
    now.isWell = true;
    await watch(8);
    now.isWell = false;
    units.restarts.set(UNIT, 3);
    await watch(4);
    units.restarts.set(UNIT, 4);
    expect((await watch(3)).at(-1)).toBe('does not start: unknown flag: --network-plugin');
  });

  test.each([
    {
      name: 'that a service was stopped',
      change: ({ units }: Services) => units.active.delete(UNIT),
      want: 'is stopped (kubelet.service)',
    },
    {
      name: 'the state of the unit of a service whose log has no error',
      change: ({ units }: Services) => {
        units.logs.delete(UNIT);
        units.status = async () => ({
          ...{ active: 'activating', sub: 'auto-restart', mainPid: 0, result: 'exit-code', restarts: 1 },
        });
      },
      want: 'does not start: kubelet.service is activating (exit-code)',
    },
    {
      name: 'that a service runs and does not answer',
      change: () => undefined,
      want: 'runs, and is not well: connection refused: unknown flag: --network-plugin',
    },
    {
      name: 'what it knows when systemd and the journal do not answer',
      change: ({ units }: Services) => {
        units.status = () => Promise.reject(new Error('timed out'));
        units.recentLog = () => Promise.reject(new Error('timed out'));
      },
      want: 'runs, and is not well: connection refused',
    },
  ])('tells $name', async ({ change, want }) => {
    const services = await createServices();
    services.now.isWell = false;
    change(services);
    expect((await services.watch(4)).at(-1)).toBe(want);
  });

  test('reads the log of a service again only after 20 s', async () => {
    const { units, now, watch } = await createServices();
    now.isWell = false;
    await watch(4);
    units.logs.set(UNIT, ['Error: another one']);
    const seen = await watch(4);
    expect(seen.map((each) => each?.includes('another one'))).toEqual([false, false, false, true]);
  });

  test('does not believe one answer of a service that ends and starts again and again', async () => {
    const { now, watch } = await createServices();
    now.isWell = false;
    await watch(4);
    now.isWell = true;
    const [first, second] = await watch(2);
    expect([first === undefined, second]).toEqual([false, undefined]);
  });

  test('ignores a service that is not installed yet', async () => {
    const { files, now, watch } = await createServices({ isInstalled: false });
    now.isWell = false;
    expect(await watch(8)).toEqual(Array(8).fill(undefined));
    await files.writeAtomic(`${UNIT_DIRECTORY}/${UNIT}`, '[Service]');
    expect((await watch(8)).at(-1)).toMatch(/^runs, and is not well/);
  });

  test('probes the services of control planes only on control planes', async () => {
    const { services, clock, files } = await createServices();
    const unit = 'cluster-etcd-state.service';
    await files.writeAtomic(`${UNIT_DIRECTORY}/${unit}`, '[Service]');
    const probes: boolean[] = [];
    const units = new FakeUnits();
    const probe = (): Promise<void> => (probes.push(true), Promise.reject(new Error('refused')));
    const own = new HostServices({ files, units, clock }, [
      { name: 'state etcd', unit, isOfControlPlane: true, probe },
    ]);
    expect([await own.findProblems(false, signal), probes]).toEqual([[], []]);
    await own.findProblems(true, signal);
    expect(probes).toEqual([true]);
    expect(await services.findProblems(true, signal)).toEqual([]);
  });
});

type Services = Awaited<ReturnType<typeof createServices>>;
