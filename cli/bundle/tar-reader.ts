import { BLOCK, padding } from './tar-writer.ts';

/** An attribute header larger than this is not one of any release. */
const MAX_PAX_BYTES = 64 * 1024;

/** One member while an archive is read. Its content is there until the next member is asked for. */
export interface TarMember {
  readonly path: string;
  readonly type: 'file' | 'directory' | 'symlink' | 'other';
  readonly mode: number;
  readonly sizeBytes: number;
  readonly target: string;
  readonly content: AsyncIterable<Uint8Array>;
}

/** Reads an archive (ustar, pax and GNU long names) member by member. Content not read is skipped. */
export async function* readTar(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<TarMember> {
  await using source = new BlockReader(chunks);
  let long: LongNames = {};
  for (;;) {
    const block = await source.take(BLOCK);
    if (block === undefined || block.every((byte) => byte === 0)) {
      await source.finish();
      return;
    }
    checkSum(block);
    const sizeBytes = parseSize(block);
    const typeflag = String.fromCharCode(block[156] ?? 0);
    if (ATTRIBUTE_HEADERS.has(typeflag)) {
      long = { ...long, ...(await readLongNames(source, typeflag, sizeBytes)) };
      continue;
    }
    yield {
      path: long.path ?? shortPath(block),
      type: memberType(typeflag),
      mode: Number.parseInt(text(block, 100, 8).trim() || '0', 8),
      sizeBytes,
      target: long.target ?? text(block, 157, 100),
      content: source.stream(sizeBytes),
    };
    await source.skip(padding(sizeBytes));
    long = {};
  }
}

/** What a header before the member's own says of it. */
interface LongNames {
  readonly path?: string;
  readonly target?: string;
}

/** pax for one member and for all, GNU long name and long link. */
const ATTRIBUTE_HEADERS: ReadonlySet<string> = new Set(['x', 'g', 'L', 'K']);

async function readLongNames(source: BlockReader, typeflag: string, sizeBytes: number): Promise<LongNames> {
  if (sizeBytes > MAX_PAX_BYTES) throw new TarError(`an attribute header of ${sizeBytes} bytes`);
  const body = await source.take(sizeBytes + padding(sizeBytes));
  if (body === undefined) throw new TarError('it ends inside a header');
  const value = body.subarray(0, sizeBytes).toString('utf8');
  if (typeflag === 'L') return { path: value.replace(/\u0000+$/, '') };
  if (typeflag === 'K') return { target: value.replace(/\u0000+$/, '') };
  if (typeflag === 'g') return {};
  const path = /(?:^|\n)\d+ path=([^\n]*)\n/.exec(value)?.[1];
  const target = /(?:^|\n)\d+ linkpath=([^\n]*)\n/.exec(value)?.[1];
  return { ...(path === undefined ? {} : { path }), ...(target === undefined ? {} : { target }) };
}

function shortPath(block: Buffer): string {
  const prefix = text(block, 345, 155);
  const path = text(block, 0, 100);
  // GNU archives use the place of the prefix for other things; their magic has no zero behind it.
  const isUstar = text(block, 257, 5) === 'ustar' && block[262] === 0;
  return isUstar && prefix !== '' ? `${prefix}/${path}` : path;
}

/** An archive that is not one. */
export class TarError extends Error {
  override readonly name = 'TarError';

  constructor(why: string) {
    super(`reading a tar archive: ${why}`);
  }
}

function memberType(typeflag: string): TarMember['type'] {
  if (typeflag === '0' || typeflag === '\u0000') return 'file';
  return typeflag === '5' ? 'directory' : typeflag === '2' ? 'symlink' : 'other';
}

function text(block: Buffer, at: number, length: number): string {
  const field = block.subarray(at, at + length);
  const end = field.indexOf(0);
  return field.subarray(0, end === -1 ? length : end).toString('utf8');
}

function parseSize(block: Buffer): number {
  const field = text(block, 124, 12).trim();
  if (!/^[0-7]{1,12}$/.test(field)) throw new TarError(`a size of ${JSON.stringify(field)}`);
  return Number.parseInt(field, 8);
}

function checkSum(block: Buffer): void {
  const stated = Number.parseInt(text(block, 148, 8).trim(), 8);
  const sum = block.reduce((total, byte, at) => total + (at >= 148 && at < 156 ? 0x20 : byte), 0);
  if (sum !== stated) throw new TarError('a header whose checksum is wrong');
}

/** Cuts a stream of chunks of any size into what the reader asks for. */
class BlockReader implements AsyncDisposable {
  readonly #chunks: AsyncIterator<Uint8Array>;
  #rest: Uint8Array = new Uint8Array();
  #unread = 0;

  constructor(chunks: AsyncIterable<Uint8Array>) {
    this.#chunks = chunks[Symbol.asyncIterator]();
  }

  /** Lets go of the source, also when the archive was not read to its end. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#chunks.return?.();
  }

  /** Reads to the end of the source: what is packed is only proved whole by its last bytes. */
  async finish(): Promise<void> {
    while ((await this.#chunks.next()).done !== true);
  }

  /** Exactly `length` bytes; undefined at the end of the stream. */
  async take(length: number): Promise<Buffer | undefined> {
    await this.#drain();
    const parts: Uint8Array[] = [];
    for (let have = 0; have < length;) {
      const part = await this.#some(length - have);
      if (part === undefined) {
        if (have === 0) return undefined;
        throw new TarError('it ends inside a block');
      }
      parts.push(part);
      have += part.length;
    }
    return Buffer.concat(parts);
  }

  /** The next `length` bytes as a stream; what is not read of it is skipped by the next call. */
  stream(length: number): AsyncIterable<Uint8Array> {
    this.#unread = length;
    return { [Symbol.asyncIterator]: () => this.#streaming() };
  }

  async skip(length: number): Promise<void> {
    await this.#drain();
    this.#unread = length;
    await this.#drain();
  }

  async *#streaming(): AsyncGenerator<Uint8Array> {
    while (this.#unread > 0) {
      const part = await this.#some(this.#unread);
      if (part === undefined) throw new TarError('it ends inside a file');
      this.#unread -= part.length;
      yield part;
    }
  }

  async #drain(): Promise<void> {
    while (this.#unread > 0) {
      const part = await this.#some(this.#unread);
      if (part === undefined) throw new TarError('it ends inside a file');
      this.#unread -= part.length;
    }
  }

  async #some(most: number): Promise<Uint8Array | undefined> {
    while (this.#rest.length === 0) {
      const next = await this.#chunks.next();
      if (next.done === true) return undefined;
      this.#rest = next.value;
    }
    const part = this.#rest.subarray(0, most);
    this.#rest = this.#rest.subarray(part.length);
    return part;
  }
}
