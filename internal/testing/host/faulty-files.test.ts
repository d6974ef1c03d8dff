import { describe, expect, test } from '@jest/globals';
import { everyFault, FaultyFiles, SimulatedCrash } from './faulty-files.ts';
import { MemoryFiles } from './memory-files.ts';

const names = async (cases: AsyncIterable<{ readonly name: string }>): Promise<string[]> => {
  const all: string[] = [];
  for await (const { name } of cases) all.push(name);
  return all;
};

describe('everyFault()', () => {
  const run = async (files: FaultyFiles): Promise<void> => {
    await files.makeDirectory('/state');
    await files.writeAtomic('/state/a', 'a');
    await files.rename('/state/a', '/state/b');
  };

  test('visits each write point with each fault', async () => {
    const cases = everyFault({ faults: ['crash-before', 'no-space'], prepare: async () => undefined, run });
    expect(await names(cases)).toEqual([
      'crash-before makeDirectory /state',
      'crash-before writeAtomic /state/a',
      'crash-before rename /state/a /state/b',
      'no-space makeDirectory /state',
      'no-space writeAtomic /state/a',
      'no-space rename /state/a /state/b',
    ]);
  });

  test('keeps the disk in the state after the fault', async () => {
    const left: Record<string, readonly string[]> = {};
    const faults = ['crash-before', 'crash-after'] as const;
    for await (const { name, disk } of everyFault({ faults, prepare: async () => undefined, run })) {
      left[name.split(' ').slice(0, 2).join(' ')] = await disk.list('/state');
    }
    expect(left).toEqual({
      'crash-before makeDirectory': [],
      'crash-before writeAtomic': [],
      'crash-before rename': ['a'],
      'crash-after makeDirectory': [],
      'crash-after writeAtomic': ['a'],
      'crash-after rename': ['b'],
    });
  });

  test('visits the additional writes of a run that handles a failed write', async () => {
    const stubborn = async (files: FaultyFiles): Promise<void> => {
      await files.writeAtomic('/a', '1').catch(() => files.writeAtomic('/a', '2'));
    };
    const cases = everyFault({ faults: ['no-space'], prepare: async () => undefined, run: stubborn });
    expect(await names(cases)).toEqual(['no-space writeAtomic /a']);
  });
});

test('FaultyFiles refuses every call after a crash', async () => {
  const disk = new MemoryFiles();
  const files = new FaultyFiles(disk, { point: 0, fault: 'crash-after' });
  await expect(files.writeAtomic('/a', 'x')).rejects.toThrow(SimulatedCrash);
  for (const call of [files.read('/a', 9), files.list('/'), files.remove('/a')]) {
    await expect(call).rejects.toThrow(SimulatedCrash);
  }
  expect(await disk.list('/')).toEqual(['a']);
});
