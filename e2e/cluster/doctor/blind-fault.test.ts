import { describe, expect, test } from '@jest/globals';
import { isNamed, readCatalogue, twiceInARow, type Fault, type Problem } from './blind-fault.ts';

const catalogue = await readCatalogue();
const problem = (cause: string): Problem => ({ code: 'doctor-x', grade: 'error', subject: 'x', cause });

describe('the catalogue of blind faults', () => {
  test('has at least 30 faults, with joins among them, and a public source for each', () => {
    expect(catalogue.length).toBeGreaterThanOrEqual(30);
    expect(catalogue.filter(({ id }) => /join|machine-comes-back/.test(id)).length).toBeGreaterThanOrEqual(3);
    for (const fault of catalogue) expect(fault).toMatchObject({ source: expect.stringMatching(/^https:/) });
  });

  test.each(catalogue.map((fault) => [fault.id, fault] as const))(
    '%s is named by its own cause',
    (_, fault) => {
      expect(isNamed(fault, problem(fault.cause))).toBe(true);
    },
  );

  test.each(catalogue.map((fault) => [fault.id, fault] as const))(
    '%s is named by the cause of no other fault, except of those that are alike',
    (_, fault) => {
      const named = catalogue
        .filter(({ id }) => id !== fault.id && fault.alike?.includes(id) !== true)
        .filter(({ cause }) => isNamed(fault, problem(cause)));
      expect(named.map(({ id }) => id)).toEqual([]);
    },
  );

  test.each(
    catalogue.flatMap((fault) => (fault.at === undefined ? [] : [[fault.id, fault, fault.at] as const])),
  )('%s is not named by the same cause on another node', (_, fault, at) => {
    expect(isNamed(fault, problem(fault.cause.replaceAll(new RegExp(`\\b${at}\\b`, 'g'), 'n9')))).toBe(false);
  });
});

describe('isNamed()', () => {
  const fault = { at: 'n2', names: ['does not start'] } as unknown as Fault;
  test('accepts a problem whose text does not name its node', () => {
    expect(isNamed(fault, { ...problem('the API server does not start'), node: 'n2' })).toBe(true);
    expect(isNamed(fault, { ...problem('the API server does not start'), node: 'n3' })).toBe(false);
  });
});

describe('twiceInARow()', () => {
  test.each([
    { answers: [true], want: [false] },
    { answers: [true, true], want: [false, true] },
    { answers: [true, false, true], want: [false, false, false] },
    { answers: [false, true, true], want: [false, false, true] },
  ])('$answers: $want', ({ answers, want }) => {
    expect(answers.map(twiceInARow((each: boolean) => each))).toEqual(want);
  });
});
