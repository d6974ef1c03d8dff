import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { findCoded } from '../errors/index.ts';
import { decodeParts, encodeParts, PART_NAMES, type PartName } from './parts.ts';

async function* one(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield await Promise.resolve(bytes);
}

/** Decrypted parts with these names, in this order. */
async function encoded(names: readonly PartName[], sizeBytes = 20): Promise<Buffer> {
  const parts = names.map((name) => ({ name, content: one(Buffer.alloc(sizeBytes, name)) }));
  return Buffer.concat(await Array.fromAsync(encodeParts(parts)));
}

/** The code with which decrypted parts are refused; "accepted" if they are not. */
async function codeOf(bytes: Uint8Array): Promise<string> {
  try {
    for await (const _ of decodeParts(one(bytes)));
    return 'accepted';
  } catch (error) {
    return findCoded(error)?.code ?? String(error);
  }
}

/** What a compromised control plane could encrypt and sign. */
describe('decodeParts() refuses decrypted parts', () => {
  test('in which any bit is changed, or that end early or go on', async () => {
    const bytes = await encoded(PART_NAMES);
    expect(await codeOf(bytes)).toBe('accepted');
    await fc.assert(
      fc.asyncProperty(fc.nat(bytes.length - 1), fc.nat(7), async (at, bit) => {
        const changed = Buffer.from(bytes);
        changed[at] = (changed[at] ?? 0) ^ (1 << bit);
        expect(await codeOf(changed)).toBe('backup-content-invalid');
        expect(await codeOf(bytes.subarray(0, at))).toBe('backup-content-invalid');
      }),
      { seed: 23, numRuns: 500 },
    );
    expect(await codeOf(Buffer.concat([bytes, Buffer.of(0)]))).toBe('backup-content-invalid');
  });

  test.each([
    { name: 'without one that is required', names: PART_NAMES.filter((name) => name !== 'shared-keys') },
    { name: 'with one twice', names: [...PART_NAMES, 'facts'] },
    { name: 'in another order', names: PART_NAMES.toReversed() },
    { name: 'with none', names: [] },
    { name: 'with an unknown one', names: [...PART_NAMES, 'other'] },
    { name: 'with a long name', names: ['w'.repeat(65), ...PART_NAMES] },
  ])('$name', async ({ names }) => {
    expect(await codeOf(await encoded(names as readonly PartName[]))).toBe('backup-content-invalid');
  });
});
