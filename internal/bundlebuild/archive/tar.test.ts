import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { readTar, type TarMember } from './tar-reader.ts';
import { tarFileOf, writeTar, type TarEntry } from './tar-writer.ts';

const LONG = `${'directory/'.repeat(20)}file`;

describe('writeTar() and readTar()', () => {
  test('preserve names, modes, links and content', async () => {
    const entries: TarEntry[] = [
      { type: 'directory', path: 'bin', mode: 0o755 },
      tarFileOf('bin/program', 'code', 0o755),
      { type: 'symlink', path: 'bin/alias', target: 'program' },
      { type: 'symlink', path: 'far', target: LONG },
      tarFileOf(LONG, 'deep'),
      tarFileOf('empty', ''),
    ];
    expect(await unpacked(writeTar(entries))).toEqual([
      { path: 'bin/', type: 'directory', mode: 0o755, target: '', content: '' },
      { path: 'bin/program', type: 'file', mode: 0o755, target: '', content: 'code' },
      { path: 'bin/alias', type: 'symlink', mode: 0o777, target: 'program', content: '' },
      { path: 'far', type: 'symlink', mode: 0o777, target: LONG, content: '' },
      { path: LONG, type: 'file', mode: 0o644, target: '', content: 'deep' },
      { path: 'empty', type: 'file', mode: 0o644, target: '', content: '' },
    ]);
  });

  test('preserve any content, in chunks of any size', async () => {
    const archive = fc.record({
      content: fc.uint8Array({ maxLength: 3000 }),
      chunk: fc.integer({ min: 1, max: 1500 }),
    });
    await fc.assert(
      fc.asyncProperty(archive, async ({ content, chunk }) => {
        const whole = await collected(writeTar([tarFileOf('first', content), tarFileOf('second', 'after')]));
        const [first, second] = await unpacked(inChunks(whole, chunk));
        expect(first?.content).toBe(Buffer.from(content).toString('latin1'));
        expect(second?.content).toBe('after');
      }),
      { numRuns: 50 },
    );
  });

  test('skip a member whose content is not read', async () => {
    const paths: string[] = [];
    for await (const member of readTar(writeTar([tarFileOf('a', 'x'.repeat(5000)), tarFileOf('b', 'y')]))) {
      paths.push(member.path);
    }
    expect(paths).toEqual(['a', 'b']);
  });
});

describe('writeTar()', () => {
  test('writes extended attributes that contain zero bytes', async () => {
    const value = Uint8Array.of(1, 0, 0, 2, 0, 4, 0, 0);
    const entry: TarEntry = { ...tarFileOf('coredns', 'x'), xattrs: { 'security.capability': value } };
    const archive = await collected(writeTar([entry]));
    // Format of a pax record: "LENGTH key=value\n". LENGTH includes its own digits.
    const record = archive.subarray(512, archive.indexOf(0x0a, 512) + 1);
    expect(record.toString('latin1')).toBe(
      `${record.length} SCHILY.xattr.security.capability=${Buffer.from(value).toString('latin1')}\n`,
    );
  });

  test('refuses content whose length differs from the announced size', async () => {
    const lying: TarEntry = { ...tarFileOf('file', 'four'), sizeBytes: 5 };
    await expect(collected(writeTar([lying]))).rejects.toThrow('4 bytes, expected 5');
  });
});

describe('readTar()', () => {
  const whole = (): Promise<Buffer> => collected(writeTar([tarFileOf('file', 'x'.repeat(600))]));

  test.each([100, 512, 700, 1100])('refuses an archive that ends after %i bytes', async (length) => {
    const cut = (await whole()).subarray(0, length);
    await expect(unpacked(inChunks(cut, 512))).rejects.toMatchObject({ name: 'TarError' });
  });

  test('refuses a header with a flipped bit', async () => {
    const bytes = await whole();
    bytes[3] = (bytes[3] ?? 0) ^ 1;
    await expect(unpacked(inChunks(bytes, 512))).rejects.toMatchObject({ name: 'TarError' });
  });

  test.each([
    { name: 'a size that is not a number', size: 'zzzzzzzzzzz' },
    { name: 'a negative size', size: '-0000000001' },
  ])('refuses $name', async ({ size }) => {
    const bytes = await whole();
    bytes.write(size, 124);
    await expect(unpacked(inChunks(resummed(bytes), 512))).rejects.toMatchObject({ name: 'TarError' });
  });

  test('refuses an extended header that is larger than the limit', async () => {
    const bytes = await whole();
    bytes.write('x', 156);
    bytes.write('77777777777', 124);
    await expect(unpacked(inChunks(resummed(bytes), 512))).rejects.toMatchObject({ name: 'TarError' });
  });
});

async function unpacked(archive: AsyncIterable<Uint8Array>) {
  const members: (Omit<TarMember, 'content' | 'sizeBytes'> & { readonly content: string })[] = [];
  for await (const { path, type, mode, target, content } of readTar(archive)) {
    members.push({ path, type, mode, target, content: (await collected(content)).toString('latin1') });
  }
  return members;
}

async function collected(chunks: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const all: Uint8Array[] = [];
  for await (const chunk of chunks) all.push(chunk);
  return Buffer.concat(all);
}

async function* inChunks(bytes: Uint8Array, length: number): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += length)
    yield await Promise.resolve(bytes.subarray(at, at + length));
}

function resummed(bytes: Buffer): Buffer {
  bytes.write(' '.repeat(8), 148);
  const sum = bytes.subarray(0, 512).reduce((total, byte) => total + byte, 0);
  bytes.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148);
  return bytes;
}
