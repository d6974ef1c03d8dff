import { z } from 'zod';
import type { FilePort } from '../../file/index.ts';
import { BundleBuildError } from '../errors.ts';

const MAX_LOCK_BYTES = 256 * 1024;

const schema = z.strictObject({
  version: z.literal(1),
  files: z.record(z.url(), z.string().regex(/^[0-9a-f]{64}$/)),
});

/**
 * `bundle.lock.json`: the hashes of earlier downloads by URL. The first hash that upstream publishes for a file is trusted, and
 * later ones must be the same. Keep the file in version control where bundles are fetched from upstream.
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

  /** Reads the file; empty when it does not exist. @throws BundleBuildError `bundlebuild-lock-invalid` */
  static async open(files: FilePort, path: string): Promise<LockFile> {
    const bytes = await files.read(path, MAX_LOCK_BYTES);
    if (bytes === undefined) return new LockFile(files, path, new Map());
    try {
      const { files: hashes } = schema.parse(JSON.parse(Buffer.from(bytes).toString()));
      return new LockFile(files, path, new Map(Object.entries(hashes)));
    } catch (cause) {
      throw new BundleBuildError('bundlebuild-lock-invalid', `reading lock file ${path}`, { cause });
    }
  }

  /** The locked SHA-256 of a URL, lower-case hex. */
  get(url: string): string | undefined {
    return this.#hashes.get(url);
  }

  /** @throws BundleBuildError `bundlebuild-source-changed` when another hash is locked */
  check(url: string, sha256: string): void {
    const locked = this.#hashes.get(url);
    if (locked === undefined || locked === sha256) return;
    throw new BundleBuildError(
      'bundlebuild-source-changed',
      `downloading ${url}: upstream publishes SHA-256 ${sha256}, ${this.#path} has ${locked}`,
      { details: { url, published: sha256, locked } },
    );
  }

  /** Adds the hash of a file that was downloaded and checked. */
  async add(url: string, sha256: string): Promise<void> {
    if (this.#hashes.get(url) === sha256) return;
    this.#hashes.set(url, sha256);
    const files = Object.fromEntries([...this.#hashes].sort(([a], [b]) => (a < b ? -1 : 1)));
    await this.#files.writeAtomic(this.#path, `${JSON.stringify({ version: 1, files }, undefined, 2)}\n`, {
      mode: 0o644,
    });
  }
}
