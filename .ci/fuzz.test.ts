import { describe, expect, test } from '@jest/globals';
import { CodedError, defineErrors, fault } from '../internal/errors/index.ts';
import { fuzz } from '../internal/testing/fuzz.ts';
import { loadFuzzTargets } from './fuzz-targets.ts';

const SECONDS = 0.2;
const targets = await loadFuzzTargets();

describe('every parser of input from untrusted peers', () => {
  test.each(targets)('$name reads or refuses by code, in time', (target) => {
    const { refused } = fuzz(target, { seconds: SECONDS });
    expect(refused).toBeGreaterThan(20);
  });

  test('the parser accepts at least one of its seeds, so that inputs get past its first check', () => {
    const deaf = targets.filter(({ seeds, parse }) => !seeds.some((seed) => isAccepted(() => parse(seed))));
    expect(deaf.map(({ name }) => name)).toEqual([]);
  });

  test('every target has its own name', () => {
    expect(new Set(targets.map(({ name }) => name)).size).toBe(targets.length);
  });
});

describe('fuzz()', () => {
  const errors = defineErrors({
    'sample-refused': fault.peer.refused('A sample.', 'None.'),
  });
  const seeds = [new Uint8Array(16)];

  test('fuzz() makes the same inputs from the same seed', () => {
    const seen = (seed: number): string[] => {
      const inputs: string[] = [];
      const parse = (input: Uint8Array): void => void inputs.push(Buffer.from(input).toString('hex'));
      fuzz({ seeds, parse, codes: [] }, { seed, seconds: 0 });
      return inputs;
    };
    expect(seen(7)).toEqual(seen(7));
    expect(seen(7)).not.toEqual(seen(8));
  });

  test('fuzz() finds a parser that throws another error, and prints how to repeat it', () => {
    const parse = (input: Uint8Array): void => {
      if (input.length < 16) throw new RangeError('out of bounds');
    };
    expect(() => fuzz({ seeds, parse, codes: ['sample-'] }, { seed: 7 })).toThrow(/FUZZ_SEED=7, input /);
  });

  test("fuzz() accepts a refusal only with an error code of the parser's own", () => {
    const parse = (): void => {
      throw new CodedError(errors, 'sample-refused', 'sampling');
    };
    expect(fuzz({ seeds, parse, codes: ['sample-'] }, { seconds: 0 })).toMatchObject({ accepted: 0 });
    expect(() => fuzz({ seeds, parse, codes: ['other-'] }, { seconds: 0 })).toThrow('something else');
  });
});

function isAccepted(work: () => unknown): boolean {
  try {
    work();
    return true;
  } catch {
    return false;
  }
}
