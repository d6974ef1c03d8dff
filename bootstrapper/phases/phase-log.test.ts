import { describe, expect, test } from '@jest/globals';
import { createMemoryLogger, everyFault, FakeClock, MemoryFiles } from '../../internal/testing/index.ts';
import { FileEventStore } from './event-store.ts';
import { PhaseLog } from './phase-log.ts';

const PATH = '/init/events.jsonl';

async function createFiles(): Promise<MemoryFiles> {
  const files = new MemoryFiles();
  await files.makeDirectory('/init');
  return files;
}

const open = (files: MemoryFiles): Promise<PhaseLog> =>
  PhaseLog.open({
    store: new FileEventStore(files, PATH),
    clock: new FakeClock(),
    log: createMemoryLogger().log,
  });

/** A disk that, while it is full, writes only the beginning of each line and then fails. */
class FullDisk extends MemoryFiles {
  readonly #taken: number;
  isFull = false;

  constructor(taken: number) {
    super();
    this.#taken = taken;
  }

  override async appendSynced(path: string, data: string): Promise<void> {
    await super.appendSynced(path, this.isFull ? data.slice(0, this.#taken) : data);
    if (this.isFull) throw new Error('no space left on device');
  }
}

describe('PhaseLog', () => {
  test('run() records start, progress and end, and repeats no unchanged progress', async () => {
    const phases = await open(await createFiles());
    await phases.run('images', async (progress) => {
      for (const done of [1, 1, 2]) progress.report('importing', { done, total: 2 });
      progress.reportUnchanged();
    });
    expect(phases.after(0).map(({ event }) => event.kind)).toEqual([
      'started',
      'progress',
      'progress',
      'finished',
    ]);
    expect(phases.after(3)).toMatchObject([{ sequence: 4, event: { phase: 'images', already: true } }]);
  });

  test('run() records the code and fix of a failure and rethrows it', async () => {
    const phases = await open(await createFiles());
    const failing = phases.run('consensus', () => Promise.reject(new Error('no quorum')));
    await expect(failing).rejects.toThrow('no quorum');
    expect(phases.after(1)).toMatchObject([
      { event: { kind: 'failed', phase: 'consensus', code: 'internal', message: 'no quorum' } },
    ]);
  });

  test('after a restart the sequence numbers continue', async () => {
    const files = await createFiles();
    await (await open(files)).run('pki', () => Promise.resolve());
    const phases = await open(files);
    await phases.run('node', () => Promise.resolve());
    expect(phases.after(0).map(({ sequence }) => sequence)).toEqual([1, 2, 3, 4]);
  });

  test('a line that a crash cut off is dropped, and the sequence has no gap', async () => {
    const files = await createFiles();
    await (await open(files)).run('pki', () => Promise.resolve());
    await files.appendSynced(PATH, '{"sequence":3,"timeMs":1,"ev');
    const phases = await open(files);
    await phases.run('node', () => Promise.resolve());
    expect((await open(files)).after(0).map(({ sequence }) => sequence)).toEqual([1, 2, 3, 4]);
  });

  test.each([0, 10, 1000])(
    'writes all events in order once the disk has space again, after the full disk had written %d characters of each line',
    async (taken) => {
      const files = new FullDisk(taken);
      await files.makeDirectory('/init');
      const phases = await open(files);
      await phases.run('preflight', () => Promise.resolve());
      files.isFull = true;
      await expect(phases.run('lock', () => Promise.reject(new Error('full')))).rejects.toThrow('full');
      files.isFull = false;
      await phases.run('lock', () => Promise.resolve());
      expect((await open(files)).after(0)).toEqual(phases.after(0));
      expect(phases.after(0).map(({ sequence }) => sequence)).toEqual([1, 2, 3, 4, 5, 6]);
    },
  );

  test('a disk that is full at any one write loses events but never fails the work', async () => {
    let cases = 0;
    const work = async (files: ConstructorParameters<typeof FileEventStore>[0]): Promise<number> => {
      const phases = await PhaseLog.open({
        store: new FileEventStore(files, PATH),
        clock: new FakeClock(),
        log: createMemoryLogger().log,
      });
      return phases.run('lock', () => Promise.resolve(42));
    };
    for await (const { error } of everyFault({
      faults: ['no-space'],
      prepare: (disk) => disk.makeDirectory('/init'),
      run: work,
    })) {
      expect(error).toBeUndefined();
      cases++;
    }
    expect(cases).toBeGreaterThan(1);
  });
});
