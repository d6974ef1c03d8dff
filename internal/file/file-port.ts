/** What a path is, as far as callers need to know. */
export interface FileStat {
  readonly kind: 'file' | 'directory' | 'symlink' | 'other';
  readonly sizeBytes: number;
  readonly mode: number;
  readonly modifiedMs: number;
}

export interface WriteOptions {
  /** Permission bits; 0o600 unless said. */
  readonly mode?: number;
}

/**
 * Files as a port: whole files, synced, or nothing. Every method rejects with a `FileError`.
 * Paths are absolute.
 */
export interface FilePort {
  /** The bytes, or undefined when the path does not exist. More than `maxBytes` is refused before it is read. */
  read(path: string, maxBytes: number): Promise<Uint8Array | undefined>;
  /** Replaces the whole file: temp + fsync + rename + fsync of the directory. Readers see old or new, never between. */
  writeAtomic(path: string, data: Uint8Array | string, options?: WriteOptions): Promise<void>;
  /** Creates the file with its content or answers false when it already exists. Durable when it answers true. */
  createExclusive(path: string, data: Uint8Array | string, options?: WriteOptions): Promise<boolean>;
  /** Creates a directory and its parents (0700 unless said), each with its mode or not at all; fine when it exists. */
  makeDirectory(path: string, mode?: number): Promise<void>;
  /** Removes a file or a whole directory; fine when absent. */
  remove(path: string): Promise<void>;
  rename(from: string, to: string): Promise<void>;
  /** Makes durable what another program has written: its bytes and its name. Fails when it is not there. */
  sync(path: string): Promise<void>;
  /** Names in a directory, sorted; empty when it does not exist. */
  list(path: string): Promise<readonly string[]>;
  stat(path: string): Promise<FileStat | undefined>;
}
