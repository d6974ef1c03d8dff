import { describe, expect, test } from '@jest/globals';
import { zipArchive } from '../../testing/index.ts';
import { readZip } from './zip-reader.ts';

const FILES = {
  'module@v1/go.mod': 'module x\n',
  'module@v1/empty': '',
  'module@v1/big': 'x'.repeat(100_000),
};

describe('readZip()', () => {
  test.each([0, 8] as const)('reads the files of an archive with compression method %i', async (method) => {
    expect(await unpacked(zipArchive(FILES, method))).toEqual(FILES);
  });

  const good = zipArchive(FILES);
  const directoryAt = good.readUInt32LE(good.length - 6);
  const broken: readonly { name: string; given: Uint8Array }[] = [
    { name: 'an empty zip archive', given: new Uint8Array() },
    { name: 'a zip archive that is cut off', given: good.subarray(0, good.length - 30) },
    {
      name: 'a directory offset outside of the zip archive',
      given: changed(good, (copy) => copy.writeUInt32LE(0xffffff00, copy.length - 6)),
    },
    {
      name: 'a file count that is too high',
      given: changed(good, (copy) => copy.writeUInt16LE(9, copy.length - 12)),
    },
    {
      name: 'a wrong length of a file',
      given: changed(good, (copy) => copy.writeUInt32LE(5, directoryAt + 24)),
    },
    {
      name: 'a file offset outside of the zip archive',
      given: changed(good, (copy) => copy.writeUInt32LE(0xffffff00, directoryAt + 42)),
    },
    {
      name: 'a file that is longer than the zip archive',
      given: changed(good, (copy) => copy.writeUInt32LE(1e9, directoryAt + 20)),
    },
    {
      name: 'an unknown compression method',
      given: changed(good, (copy) => copy.writeUInt16LE(12, directoryAt + 10)),
    },
    { name: 'a path that leaves the directory', given: zipArchive({ 'a/../../evil': 'x' }) },
    { name: 'an absolute path', given: zipArchive({ '/etc/passwd': 'x' }) },
    { name: 'damaged compressed content', given: changed(good, (copy) => copy.fill(0xff, 46, 50)) },
  ];
  test.each(broken)('readZip() refuses $name', async ({ given }) => {
    await expect(unpacked(given)).rejects.toMatchObject({ name: 'ZipError' });
  });

  test('readZip() refuses content that unpacks to more bytes than the directory states', async () => {
    const bomb = zipArchive({ bomb: 'x'.repeat(1_000_000) });
    const at = bomb.readUInt32LE(bomb.length - 6);
    bomb.writeUInt32LE(10, at + 24);
    await expect(unpacked(bomb)).rejects.toMatchObject({ name: 'ZipError' });
  });
});

async function unpacked(archive: Uint8Array): Promise<Record<string, string>> {
  const files: Record<string, string> = {};
  for await (const { path, content } of readZip(archive)) {
    files[path] = Buffer.concat(await Array.fromAsync(content)).toString();
  }
  return files;
}

function changed(archive: Buffer, change: (copy: Buffer) => void): Buffer {
  const copy = Buffer.from(archive);
  change(copy);
  return copy;
}
