import { createHash } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { TimeoutError, withTimeout } from '../cleanup/index.ts';
import type { StreamPort } from '../file/index.ts';
import { ObjectStoreError } from './errors.ts';
import { errorOf, readBody, withAnswer, type StoreConnection, type StoreRequest } from './signed-request.ts';
import { elementsOf, textOf } from './xml.ts';

const MIB = 1024 ** 2;
/**
 * Size of the parts of an upload. The client keeps one whole part in memory. S3 accepts at most 10,000 parts, each of
 * at least 5 MiB.
 */
const PART_BYTES = 8 * MIB;
const MAX_PARTS = 10_000;
const MAX_ANSWER_BYTES = 4 * MIB;
/** Enough for 50,000 objects. */
const MAX_PAGES = 50;
const CALL_MS = 10 * 60_000;
/** Time limit for reading one object back. It is long, because the store may be slow. */
const OBJECT_MS = 6 * 3_600_000;
const ATTEMPTS = 3;
const RETRY_MS = 1_000;
const SLOW_CODES: readonly string[] = ['objectstore-unreachable', 'objectstore-busy'];

/** An object in a store. */
export interface StoredObject {
  readonly key: string;
  readonly sizeBytes: number;
}

/** A file to upload. */
export interface Upload {
  readonly path: string;
  readonly sizeBytes: number;
  /** Hex. */
  readonly sha256: string;
}

/** The interfaces (ports) of an `ObjectStore`, and its connection to a store. */
export interface ObjectStoreOptions extends StoreConnection {
  readonly streams: Pick<StreamPort, 'readChunks'>;
  /** Size of the parts of an upload; default: 8 MiB. */
  readonly partBytes?: number;
}

/** One bucket of an S3-compatible store. No object is in memory as a whole. All methods reject with an `ObjectStoreError`. */
export class ObjectStore {
  readonly #options: ObjectStoreOptions;
  readonly #partBytes: number;

  constructor(options: ObjectStoreOptions) {
    this.#options = options;
    this.#partBytes = options.partBytes ?? PART_BYTES;
  }

  /** All objects whose keys begin with `prefix`. */
  async list(prefix: string, signal: AbortSignal): Promise<readonly StoredObject[]> {
    const found: StoredObject[] = [];
    let token = '';
    for (let page = 0; page < MAX_PAGES; page++) {
      const after: Record<string, string> = token === '' ? {} : { 'continuation-token': token };
      const xml = await this.#call({ method: 'GET', query: { 'list-type': '2', prefix, ...after } }, signal);
      if (!xml.includes('<ListBucketResult')) throw invalid(`listing ${prefix}: no list of objects`);
      for (const each of elementsOf(xml, 'Contents')) {
        const sizeBytes = Number(textOf(each, 'Size') || 'NaN');
        if (!Number.isSafeInteger(sizeBytes) || sizeBytes < 0)
          throw invalid(`listing ${prefix}: a size is invalid`);
        found.push({ key: textOf(each, 'Key'), sizeBytes });
      }
      token = textOf(xml, 'NextContinuationToken');
      if (textOf(xml, 'IsTruncated') !== 'true' || token === '') return found;
    }
    throw invalid(`listing ${prefix}: more than ${found.length} objects`);
  }

  /**
   * Uploads a file and reads it back. The object exists only after all of its bytes were uploaded. If it reads back
   * with other bytes, it is deleted and the call fails with `objectstore-differs`.
   */
  async put(key: string, file: Upload, signal: AbortSignal): Promise<void> {
    if (file.sizeBytes <= this.#partBytes) {
      const body = await this.#readPart(file.path, 0, file.sizeBytes, signal);
      await this.#retrying(() => this.#call({ method: 'PUT', key, body }, signal), signal);
    } else await this.#putParts(key, file, signal);
    if (await this.isSame(key, file, signal)) return;
    // If the store does not delete the object, the next caller detects by its size or hash that it differs from the
    // file.
    await this.remove(key, signal).catch(() => signal.throwIfAborted());
    throw new ObjectStoreError('objectstore-differs', `uploading ${key}: read back with other bytes`);
  }

  /** Whether the object has the size and the SHA-256 of a file. Reads the whole object. */
  async isSame(key: string, file: Omit<Upload, 'path'>, signal: AbortSignal): Promise<boolean> {
    const hash = createHash('sha256');
    let sizeBytes = 0;
    await this.read(key, signal, async (chunk) => {
      sizeBytes += chunk.length;
      if (sizeBytes <= file.sizeBytes) hash.update(chunk);
      return sizeBytes <= file.sizeBytes;
    });
    return sizeBytes === file.sizeBytes && hash.digest('hex') === file.sha256;
  }

  /** Passes the bytes of an object to `use`, in pieces, until `use` resolves to false. */
  async read(key: string, signal: AbortSignal, use: (chunk: Uint8Array) => Promise<boolean>): Promise<void> {
    await this.#answer({ method: 'GET', key }, signal, OBJECT_MS, async (answer) => {
      for await (const chunk of answer as AsyncIterable<Uint8Array>) if (!(await use(chunk))) break;
    });
  }

  /** Deletes an object. Succeeds if the object does not exist. */
  async remove(key: string, signal: AbortSignal): Promise<void> {
    await this.#call({ method: 'DELETE', key }, signal);
  }

  /**
   * Deletes the parts that an interrupted upload of a key with this prefix has left: such parts use space, and `list()`
   * does not return them.
   */
  async removeUnfinished(prefix: string, signal: AbortSignal): Promise<void> {
    const xml = await this.#call({ method: 'GET', query: { uploads: '', prefix } }, signal);
    for (const each of elementsOf(xml, 'Upload')) {
      const [key, uploadId] = [textOf(each, 'Key'), textOf(each, 'UploadId')];
      if (key.startsWith(prefix)) await this.#call({ method: 'DELETE', key, query: { uploadId } }, signal);
    }
  }

  async #putParts(key: string, { path, sizeBytes }: Upload, signal: AbortSignal): Promise<void> {
    const uploadId = textOf(
      await this.#call({ method: 'POST', key, query: { uploads: '' } }, signal),
      'UploadId',
    );
    if (uploadId === '') throw invalid(`uploading ${key}: no number of the upload`);
    const partBytes = Math.max(this.#partBytes, Math.ceil(sizeBytes / MAX_PARTS));
    try {
      const parts: string[] = [];
      for (let offset = 0; offset < sizeBytes; offset += partBytes) {
        const body = await this.#readPart(path, offset, Math.min(partBytes, sizeBytes - offset), signal);
        const query = { partNumber: String(parts.length + 1), uploadId };
        const etag = await this.#retrying(
          () => this.#putPart({ method: 'PUT', key, query, body }, signal),
          signal,
        );
        parts.push(`<Part><PartNumber>${query.partNumber}</PartNumber><ETag>${etag}</ETag></Part>`);
      }
      const body = Buffer.from(`<CompleteMultipartUpload>${parts.join('')}</CompleteMultipartUpload>`);
      const answer = await this.#call({ method: 'POST', key, query: { uploadId }, body }, signal);
      // S3 may send status 200 before it has completed the upload, and then report an error in the body.
      if (!answer.includes('<CompleteMultipartUploadResult')) throw errorOf(`uploading ${key}`, 500, answer);
    } catch (error) {
      // If that fails too, the next upload deletes the parts.
      await this.#call({ method: 'DELETE', key, query: { uploadId } }, signal).catch(() => undefined);
      throw error;
    }
  }

  async #putPart(request: StoreRequest, signal: AbortSignal): Promise<string> {
    return this.#answer(request, signal, CALL_MS, async (answer) => {
      await readBody(answer, MAX_ANSWER_BYTES);
      const etag = answer.headers.etag ?? '';
      if (!/^"?[\w-]{1,128}"?$/.test(etag)) throw invalid('uploading a part: no ETag');
      return etag;
    });
  }

  async #readPart(path: string, offset: number, sizeBytes: number, signal: AbortSignal): Promise<Uint8Array> {
    const part = Buffer.alloc(sizeBytes);
    let filled = 0;
    for await (const chunk of this.#options.streams.readChunks(path, { offset, signal })) {
      filled += Buffer.from(chunk).copy(part, filled);
      if (filled === sizeBytes) return part;
    }
    if (sizeBytes === 0) return part;
    throw new ObjectStoreError(
      'objectstore-differs',
      `uploading ${path}: the file ends after ${offset + filled} bytes`,
    );
  }

  async #retrying<T>(work: () => Promise<T>, signal: AbortSignal): Promise<T> {
    for (let attempt = 1; ; attempt++)
      try {
        return await work();
      } catch (error) {
        const isSlow = error instanceof ObjectStoreError && SLOW_CODES.includes(error.code);
        if (!isSlow || attempt === ATTEMPTS) throw error;
        await this.#options.clock.sleep(RETRY_MS * attempt, signal);
      }
  }

  async #call(request: StoreRequest, signal: AbortSignal): Promise<string> {
    return this.#answer(request, signal, CALL_MS, async (answer) =>
      Buffer.from(await readBody(answer, MAX_ANSWER_BYTES)).toString('utf8'),
    );
  }

  async #answer<T>(
    request: StoreRequest,
    signal: AbortSignal,
    ms: number,
    use: (answer: IncomingMessage) => Promise<T>,
  ): Promise<T> {
    const { clock } = this.#options;
    try {
      return await withTimeout({ what: 'a request to the store', ms, clock, signal }, (child) =>
        withAnswer(this.#options, request, use, child),
      );
    } catch (cause) {
      if (!(cause instanceof TimeoutError)) throw cause;
      throw new ObjectStoreError('objectstore-unreachable', cause.message, { cause });
    }
  }
}

function invalid(message: string): ObjectStoreError {
  return new ObjectStoreError('objectstore-answer-invalid', message);
}
