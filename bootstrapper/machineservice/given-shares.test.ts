import { randomBytes } from 'node:crypto';
import { describe, expect, test } from '@jest/globals';
import { Secret } from '../../internal/secret/index.ts';
import { digestOfShare, splitRecoveryKey } from '../../internal/statedisk/index.ts';
import type { LockedDisk } from '../disk/index.ts';
import { GivenShares } from './given-shares.ts';

const KEY = new Secret(new Uint8Array(randomBytes(32)));

/** A disk that 2 of 3 owners open. `pcr7` is the first byte of a register. */
async function createDisk() {
  const shares = await splitRecoveryKey(KEY, { owners: 3, threshold: 2 });
  const sealed = new Uint8Array();
  const recovery: LockedDisk['recovery'] = {
    ...{ kind: 'shares', threshold: 2 },
    shares: shares.map((share) => ({ sealed, digest: digestOfShare(share) })),
  };
  const diskOf = (pcr7 = 0): LockedDisk => ({
    ...{ uuid: 'uuid', recovery, consoleRecovery: undefined },
    registers: [{ pcr: 7, sealed: new Uint8Array(32), now: new Uint8Array(32).fill(pcr7) }],
  });
  const [first, second, third] = shares as [Secret<Uint8Array>, Secret<Uint8Array>, Secret<Uint8Array>];
  return { diskOf, disk: diskOf(), first, second, third };
}

const revealed = (taken: Secret<Uint8Array> | number): unknown =>
  typeof taken === 'number' ? taken : taken.reveal();

describe('the shares that owners have given', () => {
  test('give the key once there are enough', async () => {
    const { disk, first, third } = await createDisk();
    const given = new GivenShares();
    expect(await given.take(disk, first)).toBe(1);
    expect(await given.take(disk, first)).toBe(1);
    expect(given.countFor(disk)).toBe(1);
    expect(revealed(await given.take(disk, third))).toEqual(KEY.reveal());
    expect(given.countFor(disk)).toBe(2);
  });

  test('are only of this disk', async () => {
    const [{ disk, first }, other] = [await createDisk(), await createDisk()];
    const given = new GivenShares();
    await given.take(disk, first);
    for (const foreign of [other.first, KEY, new Secret(new Uint8Array())])
      await expect(given.take(disk, foreign)).rejects.toMatchObject({ code: 'machineservice-share-refused' });
    expect([given.countFor(disk), given.countFor(other.disk)]).toEqual([1, 0]);
  });

  test('are for the registers that their owners have seen', async () => {
    const { diskOf, first, second } = await createDisk();
    const given = new GivenShares();
    expect(await given.take(diskOf(1), first)).toBe(1);
    expect(given.countFor(diskOf(2))).toBe(0);
    expect(await given.take(diskOf(2), second)).toBe(1);
    expect(revealed(await given.take(diskOf(2), first))).toEqual(KEY.reveal());
    expect(await given.take(diskOf(3), first)).toBe(1);
    expect(await given.take({ ...diskOf(3), uuid: 'other' }, second)).toBe(1);
  });

  test('continue a recovery that failed half way, after which the record has new shares', async () => {
    const [{ disk, first, second }, renewed] = [await createDisk(), await createDisk()];
    const given = new GivenShares();
    await given.take(disk, first);
    await given.take(disk, second);
    expect(revealed(await given.take(renewed.disk, second))).toEqual(KEY.reveal());
    expect(given.countFor(renewed.disk)).toBe(2);
    expect(revealed(await given.take(renewed.disk, renewed.first))).toEqual(KEY.reveal());
    for (const foreign of [KEY, (await createDisk()).first])
      await expect(given.take(renewed.disk, foreign)).rejects.toMatchObject({
        code: 'machineservice-share-refused',
      });
  });

  test('are needed again when they do not open the disk', async () => {
    const { disk, first, second } = await createDisk();
    const given = new GivenShares();
    await given.take(disk, first);
    await given.take(disk, second);
    given.forget();
    expect(given.countFor(disk)).toBe(0);
    expect(await given.take(disk, second)).toBe(1);
  });

  test('are none on a disk whose owners have the whole key', async () => {
    const { disk } = await createDisk();
    const alone: LockedDisk = { ...disk, recovery: { kind: 'key', sealed: new Uint8Array() } };
    const given = new GivenShares();
    expect(await given.take(alone, KEY)).toBe(KEY);
    expect(given.countFor(alone)).toBe(0);
  });
});
