import { describe, expect, test } from '@jest/globals';
import { RoundTrips } from './round-trips.ts';

const PEER = '10.244.1.0';
const FILL = 5;

function createRoundTrips() {
  const trips = new RoundTrips();
  /** The figure after each of these round trips. */
  const after = (...samples: readonly number[]) =>
    samples.map((ms) => {
      trips.add(PEER, ms);
      return trips.reported[0]?.ms;
    });
  /** The figure after five round trips of this length each time. */
  const afterFive = (...lengths: readonly number[]) =>
    lengths.map((ms) => after(...Array.from({ length: FILL }, () => ms)).at(-1));
  return { trips, after, afterFive };
}

/** Numbers between 0 and 1 that are the same in every run. */
function* randoms(seed: number): Generator<number, never> {
  for (let state = seed; ;) {
    state = (state * 48_271) % 2_147_483_647; // the generator "minstd"
    yield state / 2_147_483_647;
  }
}

describe('RoundTrips.reported', () => {
  test('is the median of five round trips, and nothing before', () => {
    const { after } = createRoundTrips();
    expect(after(30, 10, 50, 20, 40)).toEqual([undefined, undefined, undefined, undefined, 30]);
  });

  test('does not count one lost packet and one delay of this process', () => {
    const { after } = createRoundTrips();
    expect(after(12, 1_000, 12, 400, 12).at(-1)).toBe(12);
    expect(new Set(after(12, 1_000, 12, 12, 12, 400, 12, 1_000, 12, 12))).toEqual(new Set([12]));
  });

  test('is 5 ms for every shorter round trip, so that they do not differ', () => {
    const { afterFive } = createRoundTrips();
    expect(afterFive(0.02, 0.9, 4, 9.9, 0.1)).toEqual([5, 5, 5, 5, 5]);
  });

  test('changes when the median has doubled or halved, and not before', () => {
    const { afterFive } = createRoundTrips();
    expect(afterFive(10, 19.9, 5.1, 20, 39, 10.1, 10)).toEqual([10, 10, 10, 20, 20, 20, 10]);
  });

  test('changes when the median passes the threshold of the doctor, and again only clearly below it', () => {
    const { afterFive } = createRoundTrips();
    expect(afterFive(70, 100.4, 101, 99, 81, 101, 79, 99, 101)).toEqual([
      ...[70, 70, 101, 101, 101, 101, 79, 79, 101],
    ]);
  });

  test('follows a change after three round trips, and changes again only after five more', () => {
    const { after, afterFive } = createRoundTrips();
    afterFive(10, 10);
    expect(after(200, 200, 200)).toEqual([10, 10, 200]);
    expect(after(10, 10, 10, 10, 10)).toEqual([200, 200, 200, 200, 10]);
  });

  test('has each peer with its own figure, and forgets peers that are gone', () => {
    const { trips, afterFive } = createRoundTrips();
    afterFive(10);
    for (let count = 0; count < FILL; count++) trips.add('10.244.2.0', 30);
    expect(trips.reported).toEqual([
      { address: PEER, ms: 10 },
      { address: '10.244.2.0', ms: 30 },
    ]);
    trips.keepOnly(['10.244.2.0']);
    expect(trips.reported).toEqual([{ address: '10.244.2.0', ms: 30 }]);
  });

  test.each([
    { name: 'a local network', from: 0.05, to: 9.5 },
    { name: 'a distance', from: 32, to: 58 },
    { name: 'a distance near the threshold', from: 85, to: 120 },
    { name: 'a distance above the threshold', from: 110, to: 195 },
  ])('changes at most once while round trips vary over $name, and some are lost', ({ from, to }) => {
    for (let seed = 1; seed <= 20; seed++) {
      const { after, trips } = createRoundTrips();
      const random = randoms(seed);
      const vary = (): number =>
        random.next().value < 0.005 ? 1_000 : from + random.next().value * (to - from);
      const seen = after(...Array.from({ length: 2_000 }, vary)).slice(FILL - 1);
      const changes = seen.filter((ms, at) => at > 0 && ms !== seen[at - 1]).length;
      expect(changes).toBeLessThanOrEqual(1);
      expect(trips.reported).toHaveLength(1);
    }
  });

  test('changes at most once in five round trips, whatever they are', () => {
    const { after } = createRoundTrips();
    const random = randoms(7);
    const seen = after(...Array.from({ length: 2_000 }, () => (random.next().value < 0.5 ? 1 : 500)));
    const changes = seen.flatMap((ms, at) => (at > 0 && ms !== seen[at - 1] ? [at] : []));
    expect(changes.length).toBeGreaterThan(1);
    expect(
      Math.min(...changes.slice(1).map((at, index) => at - (changes[index] ?? 0))),
    ).toBeGreaterThanOrEqual(FILL);
  });
});
