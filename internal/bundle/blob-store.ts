import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import type { FilePort, StreamPort } from '../file/index.ts';
import type { BundleManifest, Component, ComponentScope } from './component.ts';
import { checkDigest, digestOf, type Digest } from './digest.ts';
import { BundleError } from './errors.ts';

const READ_ONLY = 0o444;
/**
 * Blobs are not secret, and the join service reads them as another user. The mode of the root directory
 * limits who reaches them.
 */
const READABLE_DIRECTORY = 0o755;
const HASHED_AT_ONCE = 512 * 1024;

/** A blob as a manifest names it. The name is for messages; without `sizeBytes`, any size is accepted. */
export type BlobReference = Pick<Component, 'name' | 'sha256'> & Partial<Pick<Component, 'sizeBytes'>>;

/** See `BlobStore`. */
interface BlobStoreOptions {
  readonly files: FilePort;
  readonly streams: StreamPort;
  /** Absolute paths. The store writes to the first directory and only reads the others (seeds). */
  readonly roots: readonly [string, ...string[]];
}

/**
 * A content-addressed store of files.
 *
 * ```
 * <root>/blobs/sha256/<hex>      complete, its hash was checked, 0444
 * <root>/partial/sha256/<hex>    the beginning of a blob that is being received, 0600
 * ```
 *
 * A complete blob had the right bytes when it was written. `verify` checks that it still has them: call it before each use, for
 * seeds too. Several processes may use one root: honest writers of a partial blob write the same bytes, and `commit` hashes the
 * bytes before it publishes them.
 */
export class BlobStore {
  readonly #files: FilePort;
  readonly #streams: StreamPort;
  readonly #roots: readonly [string, ...string[]];
  readonly #locks = new KeyedLock();

  constructor(options: BlobStoreOptions) {
    this.#files = options.files;
    this.#streams = options.streams;
    this.#roots = options.roots;
  }

  /** Whether a root has the complete blob. Does not check its bytes: see `verify`. */
  async has(sha256: string): Promise<boolean> {
    return (await this.#find(sha256)) !== undefined;
  }

  /** The path of a complete blob. @throws BundleError `bundle-blob-missing` */
  async path(sha256: string): Promise<string> {
    const found = await this.#find(sha256);
    if (found === undefined) {
      throw new BundleError('bundle-blob-missing', `blob ${sha256} not found in ${this.#roots.join(', ')}`);
    }
    return found;
  }

  /**
   * Hashes the blob again and returns its path. Call it before every use.
   * @throws BundleError `bundle-blob-missing`, `bundle-blob-corrupt`
   */
  async verify(blob: string | BlobReference, signal: AbortSignal): Promise<string> {
    const { sha256 } = named(blob);
    const path = await this.path(sha256);
    const digest = await this.#digestOf(path, signal);
    checkMatches(blob, digest, path);
    return path;
  }

  /** The bytes of a complete blob from `offset` on, without verification: the receiver verifies them. */
  async *read(
    sha256: string,
    options: { readonly offset?: number; readonly signal: AbortSignal },
  ): AsyncGenerator<Uint8Array> {
    yield* this.#streams.readChunks(await this.path(sha256), options);
  }

  /** The components of these scopes (default: all) that no root has. */
  async missing(manifest: BundleManifest, scopes?: readonly ComponentScope[]): Promise<readonly Component[]> {
    const wanted = manifest.components.filter((one) => scopes === undefined || scopes.includes(one.scope));
    const held = await Promise.all(wanted.map((one) => this.has(one.sha256)));
    return wanted.filter((_, index) => held[index] === false);
  }

  /** The size of a partial blob: the offset at which to continue. */
  async partialSize(sha256: string): Promise<number> {
    return (await this.#files.stat(this.#partial(sha256)))?.sizeBytes ?? 0;
  }

  /**
   * Appends a piece to a partial blob. The piece must start where the stored bytes end. A piece that is stored already
   * is accepted, because its acknowledgement may have been lost. Returns the new size.
   * @throws BundleError `bundle-offset` with `details.expected`, `bundle-too-long`
   */
  append(blob: string | BlobReference, offset: number, bytes: Uint8Array): Promise<number> {
    const { sha256, name, sizeBytes } = named(blob);
    return this.#locks.run(sha256, async () => {
      const end = offset + bytes.length;
      if (sizeBytes !== undefined && end > sizeBytes) {
        throw new BundleError('bundle-too-long', `receiving ${name}: ${end} bytes, expected ${sizeBytes}`);
      }
      const expected = await this.partialSize(sha256);
      if (end <= expected && offset >= 0) return expected;
      if (offset !== expected) {
        const message = `receiving ${name}: piece at offset ${offset}, expected offset ${expected}`;
        throw new BundleError('bundle-offset', message, { details: { expected } });
      }
      await this.#prepare();
      await this.#streams.writeAt(this.#partial(sha256), offset, bytes);
      return end;
    });
  }

  /**
   * Completes a partial blob: hashes it and publishes it. A blob with other bytes is removed, so that the next attempt starts from
   * the beginning. Does nothing when the blob is complete already.
   * @throws BundleError `bundle-blob-corrupt`, `bundle-blob-missing` when nothing was received
   */
  commit(blob: string | BlobReference, signal: AbortSignal): Promise<void> {
    const { sha256 } = named(blob);
    return this.#locks.run(sha256, async () => {
      if ((await this.#files.stat(this.#complete(sha256))) !== undefined) return this.discard(sha256);
      try {
        await this.#publish(blob, this.#partial(sha256), signal);
      } catch (error) {
        // Another process may have completed the same blob meanwhile.
        if ((await this.#files.stat(this.#complete(sha256))) === undefined) throw error;
      }
    });
  }

  /** Removes a partial blob. */
  async discard(sha256: string): Promise<void> {
    await this.#files.remove(this.#partial(sha256));
  }

  /** Stores a stream whose hash is not known yet; with `expected`, other bytes are refused. */
  async put(chunks: AsyncIterable<Uint8Array>, options: PutOptions): Promise<Digest> {
    await this.#prepare();
    const incoming = join(this.#roots[0], 'partial', `incoming-${randomUUID()}`);
    try {
      const digest = await digestOf(this.#written(chunks, incoming));
      options.signal.throwIfAborted();
      if (options.expected !== undefined) checkMatches(options.expected, digest, incoming);
      const known = (await this.#files.stat(this.#complete(digest.sha256)))?.sizeBytes === digest.sizeBytes;
      if (!known) await this.#streams.publish(incoming, this.#complete(digest.sha256), READ_ONLY);
      return digest;
    } finally {
      await this.#files.remove(incoming);
    }
  }

  /** Removes a blob from the first root: a damaged one, before it is stored again. */
  async remove(sha256: string): Promise<void> {
    await this.#files.remove(this.#complete(sha256));
  }

  async *#written(chunks: AsyncIterable<Uint8Array>, path: string): AsyncGenerator<Uint8Array> {
    let offset = 0;
    for await (const chunk of chunks) {
      await this.#streams.writeAt(path, offset, chunk);
      offset += chunk.length;
      yield chunk;
    }
  }

  async #publish(blob: string | BlobReference, partial: string, signal: AbortSignal): Promise<void> {
    const { name, sha256 } = named(blob);
    if ((await this.#files.stat(partial)) === undefined) {
      throw new BundleError('bundle-blob-missing', `completing ${name}: no bytes were received`);
    }
    const digest = await this.#digestOf(partial, signal);
    try {
      checkMatches(blob, digest, partial);
    } catch (error) {
      await this.discard(sha256);
      throw error;
    }
    await this.#streams.publish(partial, this.#complete(sha256), READ_ONLY);
  }

  #digestOf(path: string, signal: AbortSignal): Promise<Digest> {
    return digestOf(this.#streams.readChunks(path, { into: Buffer.allocUnsafe(HASHED_AT_ONCE), signal }));
  }

  async #find(sha256: string): Promise<string | undefined> {
    checkDigest(sha256);
    for (const root of this.#roots) {
      const path = join(root, 'blobs', 'sha256', sha256);
      if ((await this.#files.stat(path))?.kind === 'file') return path;
    }
    return undefined;
  }

  async #prepare(): Promise<void> {
    await this.#files.makeDirectory(this.#roots[0]);
    await this.#files.makeDirectory(join(this.#roots[0], 'blobs', 'sha256'), READABLE_DIRECTORY);
    await this.#files.makeDirectory(join(this.#roots[0], 'partial', 'sha256'));
  }

  #complete(sha256: string): string {
    return join(this.#roots[0], 'blobs', 'sha256', checkDigest(sha256));
  }

  #partial(sha256: string): string {
    return join(this.#roots[0], 'partial', 'sha256', checkDigest(sha256));
  }
}

/** See `BlobStore.put`. */
interface PutOptions {
  readonly expected?: BlobReference;
  readonly signal: AbortSignal;
}

/** The reference to a blob. A bare hash gets a name for messages. */
function named(blob: string | BlobReference): BlobReference {
  return typeof blob === 'string' ? { name: `blob ${blob}`, sha256: blob } : blob;
}

function checkMatches(blob: string | BlobReference, digest: Digest, path: string): void {
  const { name, sha256, sizeBytes } = named(blob);
  if (digest.sha256 === sha256 && digest.sizeBytes === (sizeBytes ?? digest.sizeBytes)) return;
  throw new BundleError(
    'bundle-blob-corrupt',
    `checking ${name}: ${path} has SHA-256 ${digest.sha256} and ${digest.sizeBytes} bytes, expected SHA-256 ${sha256}`,
    { details: { name, path, sha256, found: digest.sha256 } },
  );
}

/** Runs work for the same key one after the other, and for different keys concurrently. */
class KeyedLock {
  readonly #tails = new Map<string, Promise<unknown>>();

  run<T>(key: string, work: () => Promise<T>): Promise<T> {
    const before = this.#tails.get(key) ?? Promise.resolve();
    // A failure is reported to its own caller, not to the next one.
    const result = before.then(work, work);
    this.#tails.set(key, result);
    const forget = (): void => {
      if (this.#tails.get(key) === result) this.#tails.delete(key);
    };
    result.then(forget, forget);
    return result;
  }

  /** Number of keys with running work. */
  get size(): number {
    return this.#tails.size;
  }
}
