/** One run of bytes of a file or partition. Bytes between the runs are zero. */
export interface Extent {
  readonly offset: number;
  readonly bytes: Uint8Array;
}

/** A file as its size, and its bytes where they are not zero. */
export interface SparseFile {
  readonly sizeBytes: number;
  readonly extents: readonly Extent[];
}
