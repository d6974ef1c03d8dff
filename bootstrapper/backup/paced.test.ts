import { expect, test } from '@jest/globals';
import { databaseRate, joined, paced } from './paced.ts';

const KIB = 1024;
const MIB = 1024 ** 2;
const { signal } = new AbortController();
const bytesPerSecond = 16 * MIB;
const lengthOf = ({ length }: Uint8Array): number => length;

/** A clock that only sleeping advances. */
function createClock() {
  const clock = {
    nowMs: 0,
    monotonicMs: () => clock.nowMs,
    sleep: async (ms: number) => void (clock.nowMs += await Promise.resolve(ms)),
  };
  return clock;
}

async function* chunksOf(count: number, sizeBytes: number): AsyncGenerator<Uint8Array> {
  for (let sent = 0; sent < count; sent++) yield await Promise.resolve(new Uint8Array(sizeBytes).fill(sent));
}

test('paced() passes on all chunks, at most so many bytes a second', async () => {
  const clock = createClock();
  let bytes = 0;
  for await (const chunk of paced(chunksOf(1024, 64 * KIB), lengthOf, { bytesPerSecond, clock, signal })) {
    bytes += chunk.length;
    expect(bytes / bytesPerSecond).toBeLessThanOrEqual((clock.nowMs + 25) / 1000);
  }
  expect(bytes).toBe(64 * MIB);
  expect(clock.nowMs).toBeGreaterThan(3_900);
  expect(clock.nowMs).toBeLessThanOrEqual(4_000);
});

test('paced() does not delay chunks that come slowly, and ends with the signal', async () => {
  const clock = createClock();
  for await (const _ of paced(chunksOf(10, MIB), lengthOf, { bytesPerSecond, clock, signal }))
    clock.nowMs += 1000;
  expect(clock.nowMs).toBe(10_000);
  const sleep = () => Promise.reject(new Error('stopped'));
  const all = paced(chunksOf(10, MIB), lengthOf, {
    bytesPerSecond,
    clock: { ...createClock(), sleep },
    signal,
  });
  await expect(Array.fromAsync(all)).rejects.toThrow('stopped');
});

test('databaseRate() is 4 MiB a second, and more for a database that would take longer than 250 s', () => {
  expect(databaseRate(0)).toBe(4 * MIB);
  expect(databaseRate(1000 * MIB)).toBe(4 * MIB);
  expect(databaseRate(4000 * MIB)).toBe(16 * MIB);
});

test('joined() makes blocks of small chunks, with the same bytes', async () => {
  const blocks = await Array.fromAsync(joined(chunksOf(40, 32 * KIB)));
  expect(blocks.map(lengthOf)).toEqual([512 * KIB, 512 * KIB, 256 * KIB]);
  const all = Buffer.concat(await Array.fromAsync(chunksOf(40, 32 * KIB)));
  expect(Buffer.concat(blocks).equals(all)).toBe(true); // `toEqual()` takes seconds for so many bytes
  expect(await Array.fromAsync(joined(chunksOf(0, 1)))).toEqual([]);
});
