import { z } from 'zod';
import type { FilePort } from '../../internal/file/index.ts';
import { BundleMakingError } from './errors.ts';

const MAX_LOCK_BYTES = 256 * 1024;

const schema = z.strictObject({
  version: z.literal(1),
  files: z.record(z.url(), z.string().regex(/^[0-9a-f]{64}$/)),
});

/**
 * Hashes seen before, by address: `bundle.lock.json`. What upstream publishes is believed the first time and held to
 * ever after. Meant to be kept in version control where bundles are made from upstream's files.
 */
export class LockFile {
  readonly #files: FilePort;
  readonly #path: string;
  readonly #hashes: Map<string, string>;

  private constructor(files: FilePort, path: string, hashes: Map<string, string>) {
    this.#files = files;
    this.#path = path;
    this.#hashes = hashes;
  }

  /** @throws BundleMakingError `bundlebuild-lock-invalid` */
  static async open(files: FilePort, path: string): Promise<LockFile> {
    const bytes = await files.read(path, MAX_LOCK_BYTES);
    if (bytes === undefined) return new LockFile(files, path, new Map());
    try {
      const { files: hashes } = schema.parse(JSON.parse(Buffer.from(bytes).toString()));
      return new LockFile(files, path, new Map(Object.entries(hashes)));
    } catch (cause) {
      throw new BundleMakingError('bundlebuild-lock-invalid', `reading lock file ${path}`, { cause });
    }
  }

  get(url: string): string | undefined {
    return this.#hashes.get(url);
  }

  /** @throws BundleMakingError `bundlebuild-source-changed` when another hash is locked */
  check(url: string, sha256: string): void {
    const locked = this.#hashes.get(url);
    if (locked === undefined || locked === sha256) return;
    throw new BundleMakingError(
      'bundlebuild-source-changed',
      `fetching ${url}: upstream publishes ${sha256}, ${this.#path} holds ${locked}`,
      { details: { url, published: sha256, locked } },
    );
  }

  /** Remembers a hash of bytes that were checked against it. */
  async add(url: string, sha256: string): Promise<void> {
    if (this.#hashes.get(url) === sha256) return;
    this.#hashes.set(url, sha256);
    const files = Object.fromEntries([...this.#hashes].sort(([a], [b]) => (a < b ? -1 : 1)));
    await this.#files.writeAtomic(this.#path, `${JSON.stringify({ version: 1, files }, undefined, 2)}\n`, {
      mode: 0o644,
    });
  }
}
