const BLOCK = 512;
const MAX_USTAR_NAME = 100;

/** One member of an archive to write. */
export type TarEntry = TarDirectory | TarLink | TarFile;

interface TarDirectory {
  readonly type: 'directory';
  readonly path: string;
  readonly mode: number;
}

interface TarLink {
  readonly type: 'symlink';
  readonly path: string;
  readonly target: string;
}

interface TarFile {
  readonly type: 'file';
  readonly path: string;
  readonly mode: number;
  readonly sizeBytes: number;
  /** Called each time that the archive is written. */
  readonly content: () => AsyncIterable<Uint8Array> | Iterable<Uint8Array>;
  /** Extended attributes, for example `security.capability`. */
  readonly xattrs?: Readonly<Record<string, Uint8Array>>;
}

/**
 * A tar archive (POSIX.1-2001 pax) with the entries in their order. The bytes depend on the entries alone (owner root,
 * time zero, no user names), so that equal content has equal hashes on all machines. The package tar-stream is not used
 * here, because it cannot write binary extended attributes.
 */
export async function* writeTar(
  entries: Iterable<TarEntry> | AsyncIterable<TarEntry>,
): AsyncGenerator<Uint8Array> {
  for await (const entry of entries) {
    yield* paxHeader(entry);
    yield header(entry);
    if (entry.type === 'file') yield* paddedContent(entry);
  }
  yield new Uint8Array(2 * BLOCK);
}

/** A file entry for bytes in memory. */
export function tarFileOf(path: string, content: string | Uint8Array, mode = 0o644): TarFile {
  const bytes = typeof content === 'string' ? new TextEncoder().encode(content) : content;
  return { type: 'file', path, mode, sizeBytes: bytes.length, content: () => [bytes] };
}

async function* paddedContent(entry: TarFile): AsyncGenerator<Uint8Array> {
  let written = 0;
  for await (const chunk of entry.content()) {
    written += chunk.length;
    yield chunk;
  }
  if (written !== entry.sizeBytes) {
    throw new TypeError(`writing ${entry.path} to an archive: ${written} bytes, expected ${entry.sizeBytes}`);
  }
  yield new Uint8Array(padding(written));
}

function* paxHeader(entry: TarEntry): Generator<Uint8Array> {
  const records: Uint8Array[] = [];
  if (entry.path.length > MAX_USTAR_NAME) records.push(paxRecord('path', Buffer.from(entry.path)));
  if (entry.type === 'symlink' && entry.target.length > MAX_USTAR_NAME) {
    records.push(paxRecord('linkpath', Buffer.from(entry.target)));
  }
  const xattrs = entry.type === 'file' ? Object.entries(entry.xattrs ?? {}) : [];
  for (const [name, value] of xattrs.sort(([a], [b]) => (a < b ? -1 : 1))) {
    records.push(paxRecord(`SCHILY.xattr.${name}`, value));
  }
  if (records.length === 0) return;
  const body = Buffer.concat(records);
  yield ustar({ path: 'PaxHeaders/0', typeflag: 'x', mode: 0o644, sizeBytes: body.length });
  yield body;
  yield new Uint8Array(padding(body.length));
}

/** `LENGTH KEY=VALUE\n`, where LENGTH includes its own digits. */
function paxRecord(key: string, value: Uint8Array): Uint8Array {
  const rest = Buffer.concat([Buffer.from(` ${key}=`), value, Buffer.from('\n')]);
  let length = rest.length + 1;
  while (String(length).length + rest.length !== length) length = String(length).length + rest.length;
  return Buffer.concat([Buffer.from(String(length)), rest]);
}

function header(entry: TarEntry): Uint8Array {
  const path = (entry.type === 'directory' ? `${entry.path}/` : entry.path).slice(0, MAX_USTAR_NAME);
  switch (entry.type) {
    case 'directory':
      return ustar({ path, typeflag: '5', mode: entry.mode, sizeBytes: 0 });
    case 'symlink':
      return ustar({
        path,
        typeflag: '2',
        mode: 0o777,
        sizeBytes: 0,
        target: entry.target.slice(0, MAX_USTAR_NAME),
      });
    case 'file':
      return ustar({ path, typeflag: '0', mode: entry.mode, sizeBytes: entry.sizeBytes });
  }
}

interface UstarFields {
  readonly path: string;
  readonly typeflag: string;
  readonly mode: number;
  readonly sizeBytes: number;
  readonly target?: string;
}

function ustar(fields: UstarFields): Uint8Array {
  const block = Buffer.alloc(BLOCK);
  block.write(fields.path, 0, MAX_USTAR_NAME);
  block.write(octal(fields.mode, 8), 100);
  block.write(octal(0, 8), 108); // uid
  block.write(octal(0, 8), 116); // gid
  block.write(octal(fields.sizeBytes, 12), 124);
  block.write(octal(0, 12), 136); // mtime
  block.write(' '.repeat(8), 148); // while the checksum is computed, its field is blank
  block.write(fields.typeflag, 156);
  block.write(fields.target ?? '', 157, MAX_USTAR_NAME);
  block.write('ustar\u000000', 257);
  const sum = block.reduce((total, byte) => total + byte, 0);
  block.write(`${sum.toString(8).padStart(6, '0')}\u0000 `, 148);
  return block;
}

function octal(value: number, width: number): string {
  return `${value.toString(8).padStart(width - 1, '0')}\u0000`;
}

/** Members start at multiples of 512 bytes. */
function padding(length: number): number {
  return (BLOCK - (length % BLOCK)) % BLOCK;
}
