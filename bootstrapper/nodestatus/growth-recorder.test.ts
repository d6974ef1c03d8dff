import { describe, expect, test } from '@jest/globals';
import { DAY_MS, HOUR_MS, type Clock } from '../../internal/clock/index.ts';
import type { SavedGrowth } from '../../internal/growth/index.ts';
import { FakeClock, superviseForTest } from '../../internal/testing/index.ts';
import { FaultyFiles } from '../../internal/testing/host/faulty-files.ts';
import { MemoryFiles } from '../../internal/testing/host/memory-files.ts';
import { ChecksummedFile } from '../membership/index.ts';
import { GrowthRecorder } from './growth-recorder.ts';

const GIB = 1024 ** 3;
const PATH = '/var/lib/cluster/growth.json';
const KUBELET = { kind: 'filesystem', name: '/var/lib/kubelet' } as const;

/** A machine whose disk of 100 GiB fills by 2 GiB a day, and whose agent can be restarted. */
class Machine {
  readonly time = new FakeClock();
  readonly disk = new MemoryFiles();
  files: ConstructorParameters<typeof ChecksummedFile>[0] = this.disk;
  /** How far the clock is set ahead of the true time. */
  aheadMs = 0;
  sizeBytes = 100 * GIB;
  measured = 0;
  /** The directory does not exist. */
  isMissing = false;
  readonly #startMs = this.time.nowMs();
  readonly clock: Clock = {
    nowMs: () => this.time.nowMs() + this.aheadMs,
    monotonicMs: () => this.time.monotonicMs(),
    sleep: (ms, signal) => this.time.sleep(ms, signal),
  };

  get usedBytes(): number {
    return 20 * GIB + ((this.time.monotonicMs() - this.#startMs) / DAY_MS) * 2 * GIB;
  }

  /** Runs the agent for some time. @returns the growth that it knows at the end */
  async run(ms: number) {
    const recorder = new GrowthRecorder({
      clock: this.clock,
      expected: [KUBELET],
      saved: new ChecksummedFile<SavedGrowth>(this.files, PATH),
      measure: async () => {
        this.measured += 1;
        if (this.isMissing) return [];
        return [{ ...KUBELET, usedBytes: this.usedBytes, sizeBytes: this.sizeBytes }];
      },
    });
    await using tree = superviseForTest(recorder.run, { clock: this.time });
    await this.time.advance(ms);
    return { growths: recorder.growths, records: tree.records };
  }
}

const GROWING = { ...KUBELET, bytesPerDay: expect.closeTo(2 * GIB, -6) };

describe('GrowthRecorder', () => {
  test('measures every hour, and knows the growth after a day', async () => {
    const machine = new Machine();
    const { growths } = await machine.run(DAY_MS - 1);
    expect(growths).toEqual([{ ...KUBELET, measuredMs: 23 * HOUR_MS, bytesPerDay: undefined }]);
    expect(machine.measured).toBe(24);
    expect((await new Machine().run(3 * DAY_MS)).growths).toEqual([{ ...GROWING, measuredMs: 3 * DAY_MS }]);
  });

  test('reports what it has not measured yet as measured for no time', async () => {
    const machine = new Machine();
    machine.isMissing = true;
    const { growths } = await machine.run(2 * HOUR_MS);
    expect(growths).toEqual([{ ...KUBELET, measuredMs: 0, bytesPerDay: undefined }]);
  });

  test('goes on after restarts of the agent, and does not measure more often because of them', async () => {
    const machine = new Machine();
    for (let run = 0; run < 96; run++) await machine.run(HOUR_MS / 2);
    const { growths } = await machine.run(1);
    expect(growths).toEqual([{ ...GROWING, measuredMs: expect.closeTo(47 * HOUR_MS, -7) }]);
    expect(machine.measured).toBeLessThanOrEqual(50);
  });

  test('keeps what it has while the machine is off', async () => {
    const machine = new Machine();
    await machine.run(2 * DAY_MS);
    await machine.time.advance(3 * DAY_MS);
    const [growth] = (await machine.run(HOUR_MS)).growths;
    expect(growth?.measuredMs).toBeGreaterThan(5 * DAY_MS);
    expect(growth?.bytesPerDay).toBeCloseTo(2 * GIB, -6);
  });

  test.each([
    { name: 'back', byMs: -300 * DAY_MS },
    { name: 'forward', byMs: 300 * DAY_MS },
    { name: 'back by an hour and a half', byMs: -1.5 * HOUR_MS },
  ])(
    'keeps the growth when the clock is set $name while it runs, and when it is corrected',
    async ({ byMs }) => {
      const machine = new Machine();
      const twoDays = machine.run(2 * DAY_MS + 10 * HOUR_MS);
      // The clock is set while the agent runs, and corrected later.
      const set = new AbortController().signal;
      void machine.time.sleep(30.5 * HOUR_MS, set).then(() => (machine.aheadMs = byMs));
      void machine.time.sleep(40.5 * HOUR_MS, set).then(() => (machine.aheadMs = 0));
      const { growths } = await twoDays;
      expect(growths).toEqual([{ ...GROWING, measuredMs: expect.closeTo(58 * HOUR_MS, -7) }]);
    },
  );

  test('keeps the growth when the clock was set back while the agent did not run', async () => {
    const machine = new Machine();
    await machine.run(2 * DAY_MS);
    machine.aheadMs = -40 * DAY_MS;
    const { growths } = await machine.run(10 * HOUR_MS);
    const [growth] = growths;
    expect(growth?.measuredMs).toBeGreaterThan(2 * DAY_MS);
    expect(growth?.bytesPerDay).toBeCloseTo(2 * GIB, -8);
  });

  test('begins again on a disk of another size', async () => {
    const machine = new Machine();
    await machine.run(3 * DAY_MS);
    machine.sizeBytes = 200 * GIB;
    const { growths } = await machine.run(5 * HOUR_MS);
    expect(growths).toEqual([{ ...KUBELET, measuredMs: 4 * HOUR_MS, bytesPerDay: undefined }]);
  });

  test('begins again when its file is damaged, and says so', async () => {
    const machine = new Machine();
    await machine.run(2 * DAY_MS);
    await machine.disk.writeAtomic(PATH, '{"version":1,"value":[],"sha256":"00"}');
    const { growths, records } = await machine.run(HOUR_MS);
    expect(growths[0]?.bytesPerDay).toBeUndefined();
    expect(records.map(({ message }) => message)).toContain(
      'measurements of disks cannot be read, measuring again from now',
    );
  });

  test('goes on in memory while the disk is full', async () => {
    const machine = new Machine();
    machine.files = new FaultyFiles(machine.disk, { point: 3, fault: 'no-space' });
    const { growths } = await machine.run(2 * DAY_MS);
    expect(growths).toEqual([{ ...GROWING, measuredMs: 2 * DAY_MS }]);
  });

  test('forgets what is not measured any more', async () => {
    const machine = new Machine();
    await new ChecksummedFile<SavedGrowth>(machine.disk, PATH).save([
      { kind: 'etcd', name: 'state', sizeBytes: 1, measurements: [[machine.time.nowMs(), 1]] },
    ]);
    expect((await machine.run(13 * DAY_MS)).growths).toHaveLength(2);
    expect((await machine.run(2 * DAY_MS)).growths).toHaveLength(1);
  });
});
