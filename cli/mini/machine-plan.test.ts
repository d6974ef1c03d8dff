import { describe, expect, test } from '@jest/globals';
import { MemoryFiles } from '../../internal/testing/index.ts';
import {
  chooseType,
  planMachines,
  readMachinePlan,
  saveMachinePlan,
  type PlannedMachine,
} from './machine-plan.ts';

const kinds = (machines: readonly PlannedMachine[]): readonly string[] =>
  machines.map(({ name, kind }) => `${name}:${kind}`);
const none = {};

describe('planMachines()', () => {
  test('plans one control plane by default', () => {
    expect(kinds(planMachines([], none))).toEqual(['n1:control-plane']);
  });

  test('numbers control planes first, then workers', () => {
    expect(kinds(planMachines([], { controlPlanes: 3, workers: 2 }))).toEqual([
      'n1:control-plane',
      'n2:control-plane',
      'n3:control-plane',
      'n4:worker',
      'n5:worker',
    ]);
  });

  test('keeps existing machines and continues their numbers', () => {
    const there = planMachines([], { controlPlanes: 1, workers: 1 });
    expect(planMachines(there, none)).toEqual(there);
    expect(kinds(planMachines(there, { controlPlanes: 3, workers: 1 }))).toEqual([
      'n1:control-plane',
      'n2:worker',
      'n3:control-plane',
      'n4:control-plane',
    ]);
  });

  test('never removes a machine', () => {
    const there = planMachines([], { controlPlanes: 3, workers: 2 });
    expect(planMachines(there, { controlPlanes: 1, workers: 0 })).toEqual(there);
  });
});

describe('readMachinePlan()', () => {
  test.each(['container', 'vm'] as const)(
    'reads what saveMachinePlan() wrote: type %s; a missing file is no plan',
    async (type) => {
      const files = new MemoryFiles();
      expect(await readMachinePlan(files, '/mini')).toBeUndefined();
      const machines = planMachines([], { controlPlanes: 3, workers: 1 });
      await files.makeDirectory('/mini');
      await saveMachinePlan(files, '/mini', { machines, type });
      expect(await readMachinePlan(files, '/mini')).toEqual({ machines, type });
    },
  );

  test('takes the machines of a plan of an earlier release for containers', async () => {
    const files = new MemoryFiles();
    const machines = planMachines([], none);
    await files.makeDirectory('/mini');
    await files.writeAtomic('/mini/machines.json', JSON.stringify({ version: 1, machines }));
    expect(await readMachinePlan(files, '/mini')).toEqual({ machines, type: 'container' });
  });

  test.each(['', '{}', '{"version":2,"machines":[]}', '{"version":1,"machines":[{"name":"n1","kind":"x"}]}'])(
    'refuses a damaged plan: %s',
    async (text) => {
      const files = new MemoryFiles();
      await files.makeDirectory('/mini');
      await files.writeAtomic('/mini/machines.json', text);
      await expect(readMachinePlan(files, '/mini')).rejects.toMatchObject({ code: 'mini-plan-invalid' });
    },
  );
});

describe('chooseType()', () => {
  const plan = (type: 'container' | 'vm') => ({ machines: planMachines([], none), type });

  test('makes containers unless virtual machines are wanted', () => {
    expect(chooseType('a', undefined, undefined)).toBe('container');
    expect(chooseType('a', undefined, 'vm')).toBe('vm');
  });

  test('keeps the type of an existing cluster', () => {
    expect(chooseType('a', plan('vm'), undefined)).toBe('vm');
    expect(chooseType('a', plan('vm'), 'vm')).toBe('vm');
  });

  test.each([
    ['container', 'vm'],
    ['vm', 'container'],
  ] as const)('refuses a cluster of type %s for machines of type %s', (existing, wanted) => {
    expect(() => chooseType('a', plan(existing), wanted)).toThrow(
      expect.objectContaining({ code: 'mini-machines-other' }),
    );
  });
});
