import { digestOf } from './algorithms.ts';
import { malformed } from './errors.ts';

/**
 * The tree of RFC 6962 §2.1 over SHA-256. Leaves and nodes are hashed under different prefixes, so a node cannot be
 * passed off as a leaf; a lone node moves up as it is instead of being paired with itself, so no two lists of
 * leaves have the same root.
 *
 *        root            5 leaves
 *       /    \
 *      n      \
 *     / \      \
 *    n   n      \
 *   / \ / \      \
 *   0 1 2 3       4
 */
const LEAF = Uint8Array.of(0);
const NODE = Uint8Array.of(1);

export const MAX_LEAVES = 1024;
export const MAX_PATH = 10;
export const NODE_BYTES = 32;

export function leafHash(data: Uint8Array): Uint8Array {
  return digestOf('sha256', LEAF, data);
}

export interface MerkleTree {
  readonly root: Uint8Array;
  /** For each leaf the siblings from the leaf up to the root. */
  readonly paths: readonly (readonly Uint8Array[])[];
}

/** Root and all paths over leaf hashes, each node hashed once; at least one leaf. */
export function merkleTree(leaves: readonly Uint8Array[]): MerkleTree {
  const [only] = leaves;
  if (only === undefined || leaves.length > MAX_LEAVES) throw new RangeError(`${leaves.length} leaves`);
  if (leaves.length === 1) return { root: only, paths: [[]] };
  const split = splitOf(leaves.length);
  const [left, right] = [merkleTree(leaves.slice(0, split)), merkleTree(leaves.slice(split))];
  return {
    root: nodeHash(left.root, right.root),
    paths: [
      ...left.paths.map((path) => [...path, right.root]),
      ...right.paths.map((path) => [...path, left.root]),
    ],
  };
}

export interface MerkleProof {
  readonly index: number;
  readonly size: number;
  readonly path: readonly Uint8Array[];
}

/**
 * The root that a leaf and its proof lead to. Index and size decide the number of siblings and their sides exactly;
 * any other number is `tpm-malformed`. Whoever compares the root must have `size` signed with it: a path alone
 * fits trees of several sizes.
 */
export function rootFromProof(leaf: Uint8Array, proof: MerkleProof): Uint8Array {
  const { index, size, path } = proof;
  const sides = sidesOf(index, size);
  if (sides.length !== path.length) {
    throw malformed(`a Merkle proof: ${path.length} siblings for leaf ${index} of ${size}`);
  }
  return path.reduce((node, sibling, level) => {
    return sides[level] === 'left' ? nodeHash(node, sibling) : nodeHash(sibling, node);
  }, leaf);
}

/** On which side the node stands at each level, from the leaf up. */
function sidesOf(index: number, size: number): readonly ('left' | 'right')[] {
  const inRange = Number.isInteger(size) && Number.isInteger(index) && size <= MAX_LEAVES && index < size;
  if (!inRange || index < 0) throw malformed(`a Merkle proof: leaf ${index} of ${size}`);
  if (size === 1) return [];
  const split = splitOf(size);
  return index < split
    ? [...sidesOf(index, split), 'left']
    : [...sidesOf(index - split, size - split), 'right'];
}

function nodeHash(left: Uint8Array, right: Uint8Array): Uint8Array {
  return digestOf('sha256', NODE, left, right);
}

/** The largest power of two below n. */
function splitOf(n: number): number {
  return 2 ** Math.ceil(Math.log2(n) - 1);
}
