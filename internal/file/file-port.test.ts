import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { lstat, mkdir, mkdtemp, readdir, readFile, realpath, rm, symlink, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { MemoryFiles } from '../testing/host/memory-files.ts';
import { DiskFiles, DiskStreams, type AppendPort, type FilePort } from './index.ts';

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

  test('read() returns undefined for a missing path, also below a file', async () => {
    await files.writeAtomic(at('file'), 'x');
    expect(await files.read(at('none'), 10)).toBeUndefined();
    expect(await files.read(at('none', 'deeper'), 10)).toBeUndefined();
    expect(await files.read(at('file', 'below'), 10)).toBeUndefined();
  });

  test('read() returns exactly the written bytes', async () => {
    const bytes = Uint8Array.from({ length: 256 }, (_, index) => index);
    await files.writeAtomic(at('file'), bytes);
    expect(await files.read(at('file'), 256)).toEqual(bytes);
  });

  test('read() returns no bytes for an empty file', async () => {
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
      code: 'file-wrong-kind',
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

  test('writeAtomic() into a missing directory fails and creates no directory', async () => {
    await expect(files.writeAtomic(at('none', 'file'), 'x')).rejects.toMatchObject({ code: 'file-missing' });
    expect(await files.stat(at('none'))).toBeUndefined();
  });

  test('writeAtomic() does not replace a directory', async () => {
    await files.makeDirectory(at('directory'));
    await expect(files.writeAtomic(at('directory'), 'x')).rejects.toMatchObject({ code: 'file-wrong-kind' });
    expect(await files.list(directory)).toEqual(['directory']);
  });

  test('createExclusive() succeeds for one of many concurrent callers', async () => {
    const attempts = Array.from({ length: 20 }, (_, index) => files.createExclusive(at('lock'), `${index}`));
    const won = await Promise.all(attempts);
    expect(won.filter(Boolean)).toHaveLength(1);
    expect(text(await files.read(at('lock'), 99))).toBe(String(won.indexOf(true)));
    expect(await files.list(directory)).toEqual(['lock']);
  });

  test('appendSynced() creates the file, then appends to it', async () => {
    await files.appendSynced(at('journal'), 'one\n');
    await files.appendSynced(at('journal'), 'two\n');
    expect(text(await files.read(at('journal'), 99))).toBe('one\ntwo\n');
    expect((await files.stat(at('journal')))?.mode).toBe(0o600);
  });

  test('makeDirectory() creates parents with mode 0700, and accepts an existing directory', async () => {
    await files.makeDirectory(at('a', 'b', 'c'));
    await files.makeDirectory(at('a', 'b', 'c'), 0o755);
    expect(await files.stat(at('a'))).toMatchObject({ kind: 'directory', mode: 0o700 });
    expect(await files.stat(at('a', 'b', 'c'))).toMatchObject({ kind: 'directory', mode: 0o700 });
  });

  test('makeDirectory() can run many times concurrently', async () => {
    await Promise.all(Array.from({ length: 20 }, () => files.makeDirectory(at('a', 'b'), 0o755)));
    expect(await files.list(directory)).toEqual(['a']);
    expect(await files.stat(at('a', 'b'))).toMatchObject({ kind: 'directory', mode: 0o755 });
  });

  test('makeDirectory() at the path of a file fails', async () => {
    await files.writeAtomic(at('file'), 'x');
    await expect(files.makeDirectory(at('file', 'below'))).rejects.toMatchObject({ code: 'file-wrong-kind' });
  });

  test('remove() removes a file or a directory with its content, and accepts a missing path', async () => {
    await files.makeDirectory(at('a', 'b'));
    await files.writeAtomic(at('a', 'b', 'file'), 'x');
    await files.writeAtomic(at('ab'), 'kept');
    for (const path of [at('a'), at('a'), at('none', 'deeper')]) await files.remove(path);
    expect(await files.list(directory)).toEqual(['ab']);
  });

  test('rename() moves a directory with its content', async () => {
    await files.makeDirectory(at('from', 'deep'));
    await files.makeDirectory(at('other'));
    await files.writeAtomic(at('from', 'deep', 'file'), 'x');
    await files.rename(at('from'), at('other', 'to'));
    expect(await files.list(directory)).toEqual(['other']);
    expect(text(await files.read(at('other', 'to', 'deep', 'file'), 9))).toBe('x');
  });

  test('rename() of a directory replaces an empty directory only', async () => {
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

  test('rename() of a missing path fails', async () => {
    await expect(files.rename(at('none'), at('to'))).rejects.toMatchObject({
      code: 'file-missing',
      details: { errno: 'ENOENT' },
    });
  });

  test('sync() accepts existing paths only', async () => {
    await files.writeAtomic(at('file'), 'x');
    await files.sync(at('file'));
    await expect(files.sync(at('none'))).rejects.toMatchObject({ details: { errno: 'ENOENT' } });
  });

  test('list() is sorted, and empty for a path that is not a directory', async () => {
    for (const name of ['b', 'a', 'c']) await files.writeAtomic(at(name), '');
    expect(await files.list(directory)).toEqual(['a', 'b', 'c']);
    expect(await files.list(at('none'))).toEqual([]);
    expect(await files.list(at('a'))).toEqual([]);
  });

  test('stat() returns kind and size, or undefined', async () => {
    await files.writeAtomic(at('file'), 'four');
    expect(await files.stat(at('file'))).toMatchObject({ kind: 'file', sizeBytes: 4 });
    expect(await files.stat(at('none'))).toBeUndefined();
  });
});

describe('DiskFiles on a real disk', () => {
  const files = new DiskFiles();

  test('enforces the size limit for files whose stated size is wrong', async () => {
    expect((await lstat('/proc/self/status')).size).toBe(0);
    expect(text(await files.read('/proc/self/status', 64 * 1024))).toContain('Name:');
    await expect(files.read('/proc/self/status', 16)).rejects.toMatchObject({ code: 'file-too-large' });
    await expect(files.read('/dev/zero', 100_000)).rejects.toMatchObject({ code: 'file-too-large' });
  });

  test('reads a kernel parameter completely, although only its first read returns data', async () => {
    expect(text(await files.read('/proc/sys/kernel/pid_max', 64 * 1024))).toMatch(/^[0-9]{4,}\n$/);
    await expect(files.read('/proc/sys/kernel/pid_max', 2)).rejects.toMatchObject({ code: 'file-too-large' });
  });

  test('creates files with the requested mode, whatever the umask', async () => {
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

  test('never shows a directory with a narrower mode than requested, because a crash would make that mode permanent', async () => {
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

  test('accepts a symbolic link to a directory, and does not replace a dangling link', async () => {
    await mkdir(at('target'));
    await symlink(at('target'), at('link'));
    await symlink(at('nowhere'), at('dangling'));
    await files.makeDirectory(at('link'));
    await files.makeDirectory(at('link', 'below'));
    expect(await files.list(at('target'))).toEqual(['below']);
    await expect(files.makeDirectory(at('dangling'))).rejects.toMatchObject({ code: 'file-wrong-kind' });
  });

  test('a failed write leaves no temporary file', async () => {
    await files.makeDirectory(at('directory'));
    await expect(files.writeAtomic(at('directory'), 'x')).rejects.toThrow();
    expect(await readdir(directory)).toEqual(['directory']);
  });

  test('list() hides temporary files that a crash left', async () => {
    await writeFile(at('.state.json.0123456789ab.tmp'), 'half');
    await writeFile(at('.hidden'), 'mine');
    expect(await files.list(directory)).toEqual(['.hidden']);
    expect(await files.list(directory, { temporary: true })).toEqual([
      ...['.hidden', '.state.json.0123456789ab.tmp'],
    ]);
  });

  test('removeTemporary() removes only the temporary files that a crash left for this path', async () => {
    const others = ['.state.json', '.state.json.tmp', '.state.yaml.0123456789ab.tmp', 'state.json'];
    for (const name of ['.state.json.0123456789ab.tmp', '.state.json.ba9876543210.tmp', ...others])
      await writeFile(at(name), 'half');
    await files.removeTemporary(at('state.json'));
    expect((await readdir(directory)).toSorted()).toEqual(others.toSorted());
  });

  test('a reader sees the old or the new content, never a mixture', async () => {
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

  describe('a path that is no regular file', () => {
    const streams = new DiskStreams();
    beforeEach(async () => {
      execFileSync('mkfifo', [at('fifo')]);
      await symlink('fifo', at('to-fifo'));
      await mkdir(at('directory'));
      await symlink('directory', at('to-directory'));
    });
    const kinds = async (): Promise<readonly (string | undefined)[]> =>
      Promise.all(
        ['fifo', 'to-fifo', 'directory', 'to-directory'].map(async (n) => (await files.stat(at(n)))?.kind),
      );

    test.each(['fifo', 'to-fifo', 'directory', 'to-directory'])('is not replaced: %s', async (name) => {
      const refusal = { code: 'file-wrong-kind' };
      await expect(files.writeAtomic(at(name), 'x')).rejects.toMatchObject(refusal);
      await writeFile(at('new'), 'x');
      await expect(streams.publish(at('new'), at(name), 0o600)).rejects.toMatchObject(refusal);
      expect(await kinds()).toEqual(['other', 'symlink', 'directory', 'symlink']);
    });

    test('is a stream if it is a FIFO, and gets the bytes', async () => {
      const target = await files.resolveTarget(at('to-fifo'));
      expect(target).toEqual({ kind: 'stream', path: at('to-fifo') });
      const content = 'x'.repeat(200_000); // more than a pipe holds
      const [read] = await Promise.all([readFile(at('fifo'), 'utf8'), files.writeInto(target.path, content)]);
      expect(read).toBe(content);
      expect(await kinds()).toEqual(['other', 'symlink', 'directory', 'symlink']);
    });

    test('is refused as a target if it is a directory or a socket', async () => {
      const server = createServer().listen(at('socket'));
      await once(server, 'listening');
      for (const name of ['directory', 'to-directory', 'socket'])
        await expect(files.resolveTarget(at(name))).rejects.toMatchObject({ code: 'file-wrong-kind' });
      server.close();
    });
  });

  test('resolveTarget() follows symbolic links, also to a file that does not exist', async () => {
    await mkdir(at('below'));
    await writeFile(at('below', 'file'), 'x');
    await symlink('below/file', at('to-file'));
    await symlink('../new', at('below', 'to-nothing'));
    await symlink('below', at('to-below'));
    const real = await realpath(directory);
    expect(await files.resolveTarget(at('to-file'))).toEqual({
      kind: 'file',
      path: join(real, 'below/file'),
    });
    expect(await files.resolveTarget(at('to-below', 'to-nothing'))).toEqual({
      kind: 'none',
      path: join(real, 'new'),
    });
    expect(await files.resolveTarget(at('none'))).toEqual({ kind: 'none', path: at('none') });
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
    { name: 'a file system that refuses new files', path: '/proc/self/x', code: 'file-missing' },
    { name: 'a full device', path: '/dev/full', code: 'file-no-space' },
  ])('a write to $name fails with code $code', async ({ path, code }) => {
    const attempt = path === '/dev/full' ? files.appendSynced(path, 'x') : files.writeAtomic(path, 'x');
    await expect(attempt).rejects.toMatchObject({ name: 'FileError', code });
  });
});

describe('DiskFiles on a file system without hard links', () => {
  class FilesWithoutLinks extends DiskFiles {
    protected override link(): Promise<never> {
      return Promise.reject(
        Object.assign(new Error('EPERM: operation not permitted, link'), { code: 'EPERM' }),
      );
    }
  }
  const [files, stick] = [new DiskFiles(), new FilesWithoutLinks()];

  test('createExclusive() writes the whole file once, with its mode', async () => {
    const attempts = Array.from({ length: 20 }, (_, index) =>
      stick.createExclusive(at('request'), `content ${index}`, { mode: 0o644 }),
    );
    const won = await Promise.all(attempts);
    expect(won.filter(Boolean)).toHaveLength(1);
    expect(text(await files.read(at('request'), 99))).toBe(`content ${won.indexOf(true)}`);
    expect((await files.stat(at('request')))?.mode).toBe(0o644);
    expect(await files.list(directory)).toEqual(['request']);
  });

  test('createExclusive() does not change an existing file', async () => {
    await files.writeAtomic(at('request'), 'old');
    expect(await stick.createExclusive(at('request'), 'new')).toBe(false);
    expect(text(await files.read(at('request'), 99))).toBe('old');
    expect(await files.list(directory)).toEqual(['request']);
  });
});
