import { createHash } from 'node:crypto';
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { leafHash, MAX_LEAVES, merkleTree, rootFromProof } from './merkle.ts';

const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');
const leavesOf = (count: number): Uint8Array[] =>
  Array.from({ length: count }, (_, index) => leafHash(Uint8Array.of(index >> 8, index)));
const malformed = expect.objectContaining({ code: 'tpm-malformed' });

test('merkleTree() computes the published roots for the leaves of RFC 6962', () => {
  // The test vectors of the certificate-transparency project: eight leaves and the roots of all prefixes.
  const inputs = [
    '',
    '00',
    '10',
    '2021',
    '3031',
    '40414243',
    '5051525354555657',
    '606162636465666768696a6b6c6d6e6f',
  ];
  const roots = [
    '6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d',
    'fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125',
    'aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77',
    'd37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7',
    '4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4',
    '76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef',
    'ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c',
    '5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328',
  ];
  const leaves = inputs.map((input) => leafHash(Buffer.from(input, 'hex')));
  expect(roots.map((_, index) => hex(merkleTree(leaves.slice(0, index + 1)).root))).toEqual(roots);
});

test('every leaf of every tree leads to the root by its path', () => {
  for (const size of [1, 2, 3, 4, 5, 6, 7, 8, 9, 31, 32, 33, 64, 100]) {
    const leaves = leavesOf(size);
    const { root, paths } = merkleTree(leaves);
    for (const [index, leaf] of leaves.entries()) {
      expect(hex(rootFromProof(leaf, { index, size, path: paths[index] ?? [] }))).toBe(hex(root));
    }
  }
});

test('the path of one leaf does not lead to the root with the index of another leaf', () => {
  fc.assert(
    fc.property(fc.integer({ min: 2, max: 70 }), fc.nat(), fc.nat(), (size, a, b) => {
      const [index, other] = [a % size, b % size];
      fc.pre(index !== other);
      const leaves = leavesOf(size);
      const { root, paths } = merkleTree(leaves);
      const attempt = (): string =>
        hex(
          rootFromProof(leaves[index] ?? new Uint8Array(), { index: other, size, path: paths[index] ?? [] }),
        );
      try {
        expect(attempt()).not.toBe(hex(root));
      } catch (error) {
        expect(error).toEqual(malformed);
      }
    }),
  );
});

describe('a leaf without a sibling', () => {
  test('is not paired with itself: three leaves and the same with a repeated last leaf have different roots', () => {
    const [a, b, c] = leavesOf(3) as [Uint8Array, Uint8Array, Uint8Array];
    expect(hex(merkleTree([a, b, c]).root)).not.toBe(hex(merkleTree([a, b, c, c]).root));
  });

  test('cannot be replaced by an inner node', () => {
    const [a, b] = leavesOf(2) as [Uint8Array, Uint8Array];
    const node = merkleTree([a, b]).root;
    expect(hex(leafHash(Buffer.concat([a, b])))).not.toBe(hex(node));
    expect(hex(createHash('sha256').update(a).update(b).digest())).not.toBe(hex(node));
  });
});

describe('rootFromProof()', () => {
  const leaf = leafHash(Uint8Array.of(1));
  const sibling = new Uint8Array(32);
  const hostile = [
    { name: 'an empty tree', index: 0, size: 0, path: [] },
    { name: 'a leaf index beyond the tree', index: 2, size: 2, path: [sibling] },
    { name: 'a negative leaf index', index: -1, size: 2, path: [sibling] },
    { name: 'a path with too few siblings', index: 0, size: 3, path: [sibling] },
    { name: 'a path with too many siblings', index: 0, size: 2, path: [sibling, sibling] },
    { name: 'a sibling in a tree of one leaf', index: 0, size: 1, path: [sibling] },
    {
      name: 'a tree above the size limit',
      index: 0,
      size: MAX_LEAVES + 1,
      path: Array<Uint8Array>(11).fill(sibling),
    },
    {
      name: 'a tree of 2^32 - 1 leaves',
      index: 0,
      size: 0xffffffff,
      path: Array<Uint8Array>(32).fill(sibling),
    },
    { name: 'a leaf index that is not an integer', index: 0.5, size: 2, path: [sibling] },
  ];
  test.each(hostile)('refuses $name', ({ index, size, path }) => {
    expect(() => rootFromProof(leaf, { index, size, path })).toThrow(malformed);
  });
});

test('merkleTree() refuses an empty list and more leaves than the limit', () => {
  expect(() => merkleTree([])).toThrow(RangeError);
  expect(() => merkleTree(leavesOf(MAX_LEAVES + 1))).toThrow(RangeError);
  expect(merkleTree(leavesOf(MAX_LEAVES)).paths[0]).toHaveLength(10);
});
