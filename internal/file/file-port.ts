/** Kind, size, permissions and modification time of a file or directory. */
export interface FileStat {
  readonly kind: 'file' | 'directory' | 'symlink' | 'other';
  readonly sizeBytes: number;
  /** Permission bits. */
  readonly mode: number;
  readonly modifiedMs: number;
}

/** Options of a new file. */
export interface WriteOptions {
  /** Permission bits; default: 0600. */
  readonly mode?: number;
}

/** Where a write to a path goes. */
export interface WriteTarget {
  /** `stream`: a FIFO or a character device, such as /dev/stdout of a terminal. */
  readonly kind: 'none' | 'file' | 'stream';
  /** The path without symbolic links, unless the kind is `stream`. */
  readonly path: string;
}

/** Options of a listing. */
export interface ListOptions {
  /** Whether to list temporary files, too, which a crash has left; default: false. */
  readonly temporary?: boolean;
}

/**
 * Interface (port) to whole files, synced to disk. Paths are absolute. Every method rejects with a
 * `FileError`.
 */
export interface FilePort {
  /** The bytes, or undefined when the path does not exist. @throws FileError `file-too-large` beyond `maxBytes` */
  read(path: string, maxBytes: number): Promise<Uint8Array | undefined>;
  /**
   * Replaces the file with a rename: readers see the old or the new content, and a crash leaves one of both. Replaces a symbolic
   * link, too. @throws FileError `file-wrong-kind` if the path is, or links to, anything but a regular file
   */
  writeAtomic(path: string, data: Uint8Array | string, options?: WriteOptions): Promise<void>;
  /**
   * Creates the file with its content. Returns false when it exists. Durable when it returns true. On a file system without
   * hard links, such as that of a USB stick, a crash may leave an empty file.
   */
  createExclusive(path: string, data: Uint8Array | string, options?: WriteOptions): Promise<boolean>;
  /** Creates a directory and its parents (default mode: 0700) unless they exist. */
  makeDirectory(path: string, mode?: number): Promise<void>;
  /** Removes a file, or a directory with its content, if it exists. */
  remove(path: string): Promise<void>;
  rename(from: string, to: string): Promise<void>;
  /**
   * Removes the temporary files that killed writers of this file have left. No other process may be writing the file at
   * the same time.
   */
  removeTemporary(path: string): Promise<void>;
  /**
   * Makes a file durable that another program has written: its content and its name. Fails when the path
   * does not exist.
   */
  sync(path: string): Promise<void>;
  /** The names in a directory, sorted; empty when it does not exist. */
  list(path: string, options?: ListOptions): Promise<readonly string[]>;
  /** Does not follow a symbolic link. Undefined when the path does not exist. */
  stat(path: string): Promise<FileStat | undefined>;
}

/** Interface (port) to the paths that a user names for output. Every method rejects with a `FileError`. */
export interface OutputPort {
  /**
   * Where a write to a path goes: follows symbolic links, also to a file that does not exist.
   * @throws FileError `file-wrong-kind` for a directory, a block device or a socket
   */
  resolveTarget(path: string): Promise<WriteTarget>;
  /** Writes into a `stream`. Waits until a FIFO has a reader. */
  writeInto(path: string, data: Uint8Array | string): Promise<void>;
}

/** Interface (port) to journals: files that only grow. */
export interface AppendPort {
  /** Appends to the file, and creates it (0600) if needed. Durable when the promise resolves. Rejects with a `FileError`. */
  appendSynced(path: string, data: string): Promise<void>;
}
