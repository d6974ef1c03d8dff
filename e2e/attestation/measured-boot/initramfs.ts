import { lstat, readdir, readFile, readlink } from 'node:fs/promises';
import { join } from 'node:path';

const MAGIC = '070701';
const TRAILER = 'TRAILER!!!';
const [MODE_FILE, MODE_LINK, MODE_DIRECTORY] = [0o100000, 0o120000, 0o040000];

interface Entry {
  readonly name: string;
  readonly mode: number;
  readonly content: Uint8Array;
}

/**
 * Packs a directory into an initramfs of the kernel's format
 * (Documentation/driver-api/early-userspace/buffer-format.rst). All files belong to root. The same directory
 * always gives the same bytes, so that the story can compute the PCR from it.
 */
export async function createInitramfs(directory: string): Promise<Uint8Array> {
  const entries = await readEntries(directory, '');
  const parts = [...entries, { name: TRAILER, mode: 0, content: new Uint8Array() }].flatMap(encodeEntry);
  return Buffer.concat(parts);
}

async function readEntries(directory: string, below: string): Promise<readonly Entry[]> {
  const names = (await readdir(join(directory, below))).sort();
  const entries = await Promise.all(names.map((name) => readEntry(directory, join(below, name))));
  return entries.flat();
}

async function readEntry(directory: string, name: string): Promise<readonly Entry[]> {
  const path = join(directory, name);
  const stats = await lstat(path);
  const permissions = stats.mode & 0o7777;
  if (stats.isSymbolicLink())
    return [{ name, mode: MODE_LINK | 0o777, content: Buffer.from(await readlink(path)) }];
  if (stats.isDirectory()) {
    const own = { name, mode: MODE_DIRECTORY | permissions, content: new Uint8Array() };
    return [own, ...(await readEntries(directory, name))];
  }
  return [{ name, mode: MODE_FILE | permissions, content: await readFile(path) }];
}

function encodeEntry({ name, mode, content }: Entry, index: number): readonly Uint8Array[] {
  const hex = (value: number): string => value.toString(16).padStart(8, '0');
  const fields = [index, mode, 0, 0, 1, 0, content.length, 0, 0, 0, 0, name.length + 1, 0].map(hex);
  const head = Buffer.from(`${MAGIC}${fields.join('')}${name}\0`);
  return [head, padding(head.length), content, padding(content.length)];
}

function padding(length: number): Uint8Array {
  return new Uint8Array((4 - (length % 4)) % 4);
}
