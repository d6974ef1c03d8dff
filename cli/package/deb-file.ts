import { gunzipSync, zstdDecompressSync } from 'node:zlib';
import { readTar } from '../../internal/bundlebuild/index.ts';
import { PackageError } from './errors.ts';

/** A Debian package is an ar(5) archive whose second member is the control archive (deb(5)). */
const MAGIC = '!<arch>\n';
const HEADER_BYTES = 60;
const MAX_CONTROL_BYTES = 1024 * 1024;

/**
 * Returns the control file of a Debian package.
 * @throws PackageError `package-damaged`
 */
export async function readControl(path: string, bytes: Uint8Array): Promise<string> {
  const member = [...arMembers(path, bytes)].find(({ name }) => name.startsWith('control.tar'));
  if (member === undefined) throw damaged(path, 'no control archive');
  const archive = unpack(path, member.name, member.content);
  for await (const file of readTar(once(archive))) {
    if (file.path.replace(/^\.\//, '') !== 'control' || file.sizeBytes > MAX_CONTROL_BYTES) continue;
    const text = Buffer.concat(await Array.fromAsync(file.content)).toString('utf8');
    return `${text.trimEnd()}\n`;
  }
  throw damaged(path, 'no control file in the control archive');
}

/** A field of a control file; undefined when it is missing. */
export function fieldOf(control: string, name: string): string | undefined {
  return new RegExp(`^${name}: *(.*)$`, 'm').exec(control)?.[1]?.trim();
}

function* arMembers(path: string, bytes: Uint8Array): Generator<{ name: string; content: Uint8Array }> {
  const text = (from: number, length: number): string =>
    Buffer.from(bytes.subarray(from, from + length)).toString('latin1');
  if (text(0, MAGIC.length) !== MAGIC) throw damaged(path, 'not a Debian package');
  for (let at = MAGIC.length; at + HEADER_BYTES <= bytes.length;) {
    const size = Number.parseInt(text(at + 48, 10), 10);
    const from = at + HEADER_BYTES;
    if (!(size >= 0) || from + size > bytes.length) throw damaged(path, 'truncated');
    yield { name: text(at, 16).trim().replace(/\/$/, ''), content: bytes.subarray(from, from + size) };
    at = from + size + (size % 2); // members start at even offsets
  }
}

function unpack(path: string, name: string, content: Uint8Array): Uint8Array {
  const limit = { maxOutputLength: 16 * MAX_CONTROL_BYTES };
  try {
    if (name.endsWith('.tar')) return content;
    if (name.endsWith('.gz')) return gunzipSync(content, limit);
    if (name.endsWith('.zst')) return zstdDecompressSync(content, limit);
  } catch (cause) {
    throw new PackageError('package-damaged', `reading ${path}: ${name}`, { cause });
  }
  throw damaged(path, `unknown compression of ${name}`);
}

async function* once(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield bytes;
}

function damaged(path: string, why: string): PackageError {
  return new PackageError('package-damaged', `reading ${path}: ${why}`);
}
