import { randomBytes } from 'node:crypto';
import { describe, expect, test } from '@jest/globals';
import { Secret } from '../secret/index.ts';
import { digestOfShare, RecoveryShares, splitRecoveryKey, type SharedRecovery } from './index.ts';

const KEY = new Secret(new Uint8Array(randomBytes(32)));

/** Every choice of `count` of the items. */
function choices<T>(items: readonly T[], count: number): readonly (readonly T[])[] {
  if (count === 0) return [[]];
  return items.flatMap((item, at) => choices(items.slice(at + 1), count - 1).map((rest) => [item, ...rest]));
}

async function splitInto(owners: number, threshold: number) {
  const shares = await splitRecoveryKey(KEY, { owners, threshold });
  const sealed = new Uint8Array();
  const recovery: SharedRecovery = {
    ...{ kind: 'shares', threshold },
    shares: shares.map((share) => ({ sealed, digest: digestOfShare(share) })),
  };
  return { recovery, shares };
}

async function combineAll(
  { recovery }: Awaited<ReturnType<typeof splitInto>>,
  chosen: readonly Secret<Uint8Array>[],
): Promise<Uint8Array> {
  const collected = new RecoveryShares();
  for (const share of chosen) expect(collected.add(recovery, share)).toBe(true);
  return (await collected.combine(recovery)).reveal();
}

describe('recovery shares', () => {
  test.each([
    [2, 2],
    [3, 2],
    [5, 3],
  ])('of %i owners give the key again, whichever %i of them come together, in any order', async (...size) => {
    const disk = await splitInto(...size);
    for (const chosen of choices(disk.shares, disk.recovery.threshold)) {
      expect(await combineAll(disk, chosen)).toEqual(KEY.reveal());
      expect(await combineAll(disk, chosen.toReversed())).toEqual(KEY.reveal());
    }
    expect(await combineAll(disk, disk.shares)).toEqual(KEY.reveal());
  });

  test('give another key if one is missing', async () => {
    const disk = await splitInto(5, 3);
    for (const chosen of choices(disk.shares, 2))
      expect(await combineAll(disk, chosen)).not.toEqual(KEY.reveal());
  });

  test('are other ones each time', async () => {
    const [one, other] = [await splitInto(3, 2), await splitInto(3, 2)];
    const all = [one, other].flatMap(({ recovery }) =>
      recovery.shares.map(({ digest }) => Buffer.from(digest).toString('hex')),
    );
    expect(new Set(all).size).toBe(6);
  });

  test('count once each, and only for their disk', async () => {
    const { recovery: disk, shares } = await splitInto(3, 2);
    const other = await splitInto(3, 2);
    const [first, second] = shares as [Secret<Uint8Array>, Secret<Uint8Array>];
    const collected = new RecoveryShares();
    for (const share of [first, first]) {
      expect(collected.add(disk, share)).toBe(true);
      expect(collected.countOf(disk)).toBe(1);
    }
    const changed = first.reveal().with(0, (first.reveal()[0] ?? 0) ^ 1);
    for (const foreign of [other.shares[0]?.reveal() ?? changed, changed, new Uint8Array()])
      expect(collected.add(disk, new Secret(foreign))).toBe(false);
    expect(collected.countOf(disk)).toBe(1);
    expect(collected.add(disk, second)).toBe(true);
    expect(collected.countOf(disk)).toBe(2);
    expect(collected.countOf(other.recovery)).toBe(0);
  });
});
