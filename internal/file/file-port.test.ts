import { lstat, mkdir, mkdtemp, readdir, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { MemoryFiles } from '../testing/host/memory-files.ts';
import { DiskFiles, type AppendPort, type FilePort } from './index.ts';

const text = (bytes: Uint8Array | undefined): string | undefined =>
  bytes === undefined ? undefined : Buffer.from(bytes).toString();

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'cluster-file-'));
});
afterEach(async () => {
  await rm(directory, { recursive: true, force: true });
});
const at = (...names: string[]): string => join(directory, ...names);

const ports: readonly { name: string; create: () => Promise<FilePort & AppendPort> }[] = [
  { name: 'DiskFiles', create: async () => new DiskFiles() },
  {
    name: 'MemoryFiles',
    create: async () => {
      const files = new MemoryFiles();
      await files.makeDirectory(directory);
      return files;
    },
  },
];

describe.each(ports)('$name', ({ create }) => {
  let files: FilePort & AppendPort;
  beforeEach(async () => {
    files = await create();
  });

  test('read() gives undefined for what does not exist, also below a file', async () => {
    await files.writeAtomic(at('file'), 'x');
    expect(await files.read(at('none'), 10)).toBeUndefined();
    expect(await files.read(at('none', 'deeper'), 10)).toBeUndefined();
    expect(await files.read(at('file', 'below'), 10)).toBeUndefined();
  });

  test('read() gives exactly what was written', async () => {
    const bytes = Uint8Array.from({ length: 256 }, (_, index) => index);
    await files.writeAtomic(at('file'), bytes);
    expect(await files.read(at('file'), 256)).toEqual(bytes);
  });

  test('read() gives an empty file as no bytes', async () => {
    await files.writeAtomic(at('file'), '');
    expect(await files.read(at('file'), 0)).toEqual(new Uint8Array());
  });

  test('read() refuses one byte more than the limit', async () => {
    await files.writeAtomic(at('file'), 'four');
    expect(text(await files.read(at('file'), 4))).toBe('four');
    await expect(files.read(at('file'), 3)).rejects.toMatchObject({ code: 'file-too-large' });
  });

  test('read() of a directory is an error', async () => {
    await expect(files.read(directory, 10)).rejects.toMatchObject({
      code: 'file-io',
      details: { errno: 'EISDIR' },
    });
  });

  test('writeAtomic() replaces content and mode', async () => {
    await files.writeAtomic(at('file'), 'first', { mode: 0o644 });
    expect((await files.stat(at('file')))?.mode).toBe(0o644);
    await files.writeAtomic(at('file'), 'second');
    expect(text(await files.read(at('file'), 99))).toBe('second');
    expect((await files.stat(at('file')))?.mode).toBe(0o600);
  });

  test('writeAtomic() into a directory that does not exist fails and makes none', async () => {
    await expect(files.writeAtomic(at('none', 'file'), 'x')).rejects.toMatchObject({ code: 'file-io' });
    expect(await files.stat(at('none'))).toBeUndefined();
  });

  test('writeAtomic() does not replace a directory', async () => {
    await files.makeDirectory(at('directory'));
    await expect(files.writeAtomic(at('directory'), 'x')).rejects.toMatchObject({ code: 'file-io' });
    expect(await files.list(directory)).toEqual(['directory']);
  });

  test('createExclusive() has one winner among many', async () => {
    const attempts = Array.from({ length: 20 }, (_, index) => files.createExclusive(at('lock'), `${index}`));
    const won = await Promise.all(attempts);
    expect(won.filter(Boolean)).toHaveLength(1);
    expect(text(await files.read(at('lock'), 99))).toBe(String(won.indexOf(true)));
    expect(await files.list(directory)).toEqual(['lock']);
  });

  test('appendSynced() creates and then adds', async () => {
    await files.appendSynced(at('journal'), 'one\n');
    await files.appendSynced(at('journal'), 'two\n');
    expect(text(await files.read(at('journal'), 99))).toBe('one\ntwo\n');
    expect((await files.stat(at('journal')))?.mode).toBe(0o600);
  });

  test('makeDirectory() creates parents, for the owner only, and is fine when it exists', async () => {
    await files.makeDirectory(at('a', 'b', 'c'));
    await files.makeDirectory(at('a', 'b', 'c'), 0o755);
    expect(await files.stat(at('a'))).toMatchObject({ kind: 'directory', mode: 0o700 });
    expect(await files.stat(at('a', 'b', 'c'))).toMatchObject({ kind: 'directory', mode: 0o700 });
  });

  test('makeDirectory() may be called by many at once', async () => {
    await Promise.all(Array.from({ length: 20 }, () => files.makeDirectory(at('a', 'b'), 0o755)));
    expect(await files.list(directory)).toEqual(['a']);
    expect(await files.stat(at('a', 'b'))).toMatchObject({ kind: 'directory', mode: 0o755 });
  });

  test('makeDirectory() over a file fails', async () => {
    await files.writeAtomic(at('file'), 'x');
    await expect(files.makeDirectory(at('file', 'below'))).rejects.toMatchObject({ code: 'file-io' });
  });

  test('remove() takes a file, a whole directory, or nothing at all', async () => {
    await files.makeDirectory(at('a', 'b'));
    await files.writeAtomic(at('a', 'b', 'file'), 'x');
    await files.writeAtomic(at('ab'), 'kept');
    for (const path of [at('a'), at('a'), at('none', 'deeper')]) await files.remove(path);
    expect(await files.list(directory)).toEqual(['ab']);
  });

  test('rename() moves a directory with all that is in it', async () => {
    await files.makeDirectory(at('from', 'deep'));
    await files.makeDirectory(at('other'));
    await files.writeAtomic(at('from', 'deep', 'file'), 'x');
    await files.rename(at('from'), at('other', 'to'));
    expect(await files.list(directory)).toEqual(['other']);
    expect(text(await files.read(at('other', 'to', 'deep', 'file'), 9))).toBe('x');
  });

  test('rename() of a directory replaces an empty one, and nothing else', async () => {
    for (const name of ['one', 'two', 'empty']) await files.makeDirectory(at(name));
    await files.writeAtomic(at('two', 'file'), 'x');
    await files.writeAtomic(at('file'), 'x');
    const refused = (to: string, errno: string) =>
      expect(files.rename(at('one'), at(to))).rejects.toMatchObject({ details: { errno } });
    await refused('two', 'ENOTEMPTY');
    await refused('file', 'ENOTDIR');
    await files.rename(at('two'), at('empty'));
    expect(await files.list(at('empty'))).toEqual(['file']);
  });

  test('rename() of what does not exist fails', async () => {
    await expect(files.rename(at('none'), at('to'))).rejects.toMatchObject({
      code: 'file-io',
      details: { errno: 'ENOENT' },
    });
  });

  test('sync() takes what is there, and nothing else', async () => {
    await files.writeAtomic(at('file'), 'x');
    await files.sync(at('file'));
    await expect(files.sync(at('none'))).rejects.toMatchObject({ details: { errno: 'ENOENT' } });
  });

  test('list() is sorted, and empty for what is no directory', async () => {
    for (const name of ['b', 'a', 'c']) await files.writeAtomic(at(name), '');
    expect(await files.list(directory)).toEqual(['a', 'b', 'c']);
    expect(await files.list(at('none'))).toEqual([]);
    expect(await files.list(at('a'))).toEqual([]);
  });

  test('stat() tells kind and size, or undefined', async () => {
    await files.writeAtomic(at('file'), 'four');
    expect(await files.stat(at('file'))).toMatchObject({ kind: 'file', sizeBytes: 4 });
    expect(await files.stat(at('none'))).toBeUndefined();
  });
});

describe('DiskFiles on a real disk', () => {
  const files = new DiskFiles();

  test('holds its limit where sizes lie', async () => {
    expect((await lstat('/proc/self/status')).size).toBe(0);
    expect(text(await files.read('/proc/self/status', 64 * 1024))).toContain('Name:');
    await expect(files.read('/proc/self/status', 16)).rejects.toMatchObject({ code: 'file-too-large' });
    await expect(files.read('/dev/zero', 100_000)).rejects.toMatchObject({ code: 'file-too-large' });
  });

  test('reads a setting of the kernel whole: it is there for one read only', async () => {
    expect(text(await files.read('/proc/sys/kernel/pid_max', 64 * 1024))).toMatch(/^[0-9]{4,}\n$/);
    await expect(files.read('/proc/sys/kernel/pid_max', 2)).rejects.toMatchObject({ code: 'file-too-large' });
  });

  test('gives what was asked for whatever the umask', async () => {
    const old = process.umask(0o077);
    try {
      await files.writeAtomic(at('public'), 'x', { mode: 0o644 });
      await files.makeDirectory(at('open'), 0o755);
      process.umask(0);
      await files.writeAtomic(at('secret'), 'x');
      await files.appendSynced(at('journal'), 'x');
    } finally {
      process.umask(old);
    }
    const modes = ['public', 'open', 'secret', 'journal'].map(
      async (name) => (await files.stat(at(name)))?.mode,
    );
    expect(await Promise.all(modes)).toEqual([0o644, 0o755, 0o600, 0o600]);
  });

  test('shows nobody a directory that is narrower than what was asked for: a crash would leave it so', async () => {
    const old = process.umask(0o077);
    const seen = new Set<number | undefined>();
    let round = 0;
    const onlooker = (async () => {
      while (round < 50) seen.add((await files.stat(at(`open${round}`)))?.mode);
    })();
    try {
      for (; round < 50; round++) await files.makeDirectory(at(`open${round}`), 0o755);
    } finally {
      process.umask(old);
      round = 50;
    }
    await onlooker;
    seen.delete(undefined);
    expect([...seen]).toEqual([0o755]);
  });

  test('follows a link to a directory, and makes none in the place of one that leads nowhere', async () => {
    await mkdir(at('target'));
    await symlink(at('target'), at('link'));
    await symlink(at('nowhere'), at('dangling'));
    await files.makeDirectory(at('link'));
    await files.makeDirectory(at('link', 'below'));
    expect(await files.list(at('target'))).toEqual(['below']);
    await expect(files.makeDirectory(at('dangling'))).rejects.toMatchObject({ code: 'file-io' });
  });

  test('leaves nothing beside a write that failed', async () => {
    await files.makeDirectory(at('directory'));
    await expect(files.writeAtomic(at('directory'), 'x')).rejects.toThrow();
    expect(await readdir(directory)).toEqual(['directory']);
  });

  test('does not show what a crash left behind', async () => {
    await writeFile(at('.state.json.0123456789ab.tmp'), 'half');
    await writeFile(at('.hidden'), 'mine');
    expect(await files.list(directory)).toEqual(['.hidden']);
  });

  test('shows a reader the old or the new content, never a mixture', async () => {
    const contents = ['a', 'b'].map((letter) => letter.repeat(64 * 1024));
    await files.writeAtomic(at('state'), contents[0] ?? '');
    const seen = new Set<string | undefined>();
    let writing = true;
    const reader = (async () => {
      while (writing) seen.add(text(await files.read(at('state'), 1_000_000)));
    })();
    for (let round = 0; round < 50; round++) await files.writeAtomic(at('state'), contents[round % 2] ?? '');
    writing = false;
    await reader;
    expect([...seen].every((each) => each !== undefined && contents.includes(each))).toBe(true);
  });

  test('stat() and remove() do not follow symbolic links', async () => {
    await mkdir(at('target'));
    await writeFile(at('target', 'kept'), 'x');
    await symlink(at('target'), at('link'));
    expect((await files.stat(at('link')))?.kind).toBe('symlink');
    await files.remove(at('link'));
    expect(await files.list(at('target'))).toEqual(['kept']);
  });

  test.each([
    { name: 'a read-only file system', path: '/proc/self/x', code: 'file-io' },
    { name: 'a full device', path: '/dev/full', code: 'file-no-space' },
  ])('translates $name', async ({ path, code }) => {
    const attempt = path === '/dev/full' ? files.appendSynced(path, 'x') : files.writeAtomic(path, 'x');
    await expect(attempt).rejects.toMatchObject({ name: 'FileError', code });
  });
});
