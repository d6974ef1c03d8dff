import { digestOf } from './algorithms.ts';
import { malformed } from './errors.ts';

/**
 * The Merkle tree of RFC 6962 §2.1 with SHA-256. Leaves and nodes are hashed with different prefixes, so that a node cannot
 * be used as a leaf. A node without sibling moves up unchanged, so that two lists of leaves never have the same root.
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

/** The largest number of leaves in a tree. */
export const MAX_LEAVES = 1024;
/** The largest number of sibling hashes in a path. */
export const MAX_PATH = 10;
/** Size of a node: SHA-256. */
export const NODE_BYTES = 32;

/** The hash of the leaf for `data`. */
export function leafHash(data: Uint8Array): Uint8Array {
  return digestOf('sha256', LEAF, data);
}

/** A tree with the paths of all leaves. */
export interface MerkleTree {
  readonly root: Uint8Array;
  /** For each leaf, the siblings on its path to the root, from the leaf up. */
  readonly paths: readonly (readonly Uint8Array[])[];
}

/** Builds the tree over 1 to `MAX_LEAVES` leaf hashes. */
export function merkleTree(leaves: readonly Uint8Array[]): MerkleTree {
  const [only] = leaves;
  if (only === undefined || leaves.length > MAX_LEAVES)
    throw new RangeError(`a tree has 1 to ${MAX_LEAVES} leaves, not ${leaves.length}`);
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

/** Proof that a leaf is in a tree. */
export interface MerkleProof {
  readonly index: number;
  readonly size: number;
  readonly path: readonly Uint8Array[];
}

/**
 * Computes the root from a leaf and its proof. Index and size determine the number of siblings and their sides. The
 * caller must verify a signature over root and `size`: one path can be valid in trees of several sizes.
 * @throws TpmError `tpm-malformed` for another number of siblings
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

/** On which side the node is at each level, from the leaf up. */
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
