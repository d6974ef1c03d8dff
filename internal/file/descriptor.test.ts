import { openSync } from 'node:fs';
import { mkdtemp, open, rm, writeFile } from 'node:fs/promises';
import { execFileSync } from 'node:child_process';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { readDescriptor } from './index.ts';

const signal = new AbortController().signal;
const limits = { maxBytes: 10, signal };
let directory = '';

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'cluster-descriptor-'));
});
afterEach(() => rm(directory, { recursive: true }));

/** Creates a named pipe. Its reading end reaches the end of the data when the returned writer has closed the pipe. */
async function createPipe(): Promise<{
  readonly reader: number;
  readonly write: (text: string) => Promise<void>;
}> {
  const path = join(directory, 'pipe');
  execFileSync('mkfifo', [path]);
  const [reader, writer] = await Promise.all([open(path, 'r'), open(path, 'w')]);
  // readDescriptor() closes the descriptor that it gets. It gets a duplicate here, which no FileHandle closes a second
  // time.
  const own = openSync(`/proc/self/fd/${reader.fd}`, 'r');
  await reader.close();
  return {
    reader: own,
    write: async (text) => {
      await writer.write(text);
      await writer.close();
    },
  };
}

describe('readDescriptor()', () => {
  test('reads a file to its end, and refuses one byte more than the limit', async () => {
    for (const [text, want] of [
      ['ten bytes!', 'ten bytes!'],
      ['eleven byte', undefined],
    ] as const) {
      await writeFile(join(directory, 'file'), text);
      await using handle = await open(join(directory, 'file'), 'r');
      const read = readDescriptor(handle.fd, limits);
      if (want === undefined) await expect(read).rejects.toMatchObject({ code: 'file-too-large' });
      else expect(Buffer.from(await read).toString()).toBe(want);
    }
  });

  test('reads a pipe until its writer closes it', async () => {
    const { reader, write } = await createPipe();
    const read = readDescriptor(reader, limits);
    await write('from pipe');
    expect(Buffer.from(await read).toString()).toBe('from pipe');
  });

  test('refuses a pipe with more than the limit', async () => {
    const { reader, write } = await createPipe();
    const refused = expect(readDescriptor(reader, limits)).rejects.toMatchObject({ code: 'file-too-large' });
    await write('more than ten');
    await refused;
  });

  test('stops waiting for a pipe when it is aborted', async () => {
    const { reader, write } = await createPipe();
    const stopping = new AbortController();
    const stopped = expect(
      readDescriptor(reader, { maxBytes: 10, signal: stopping.signal }),
    ).rejects.toThrow();
    stopping.abort();
    await stopped;
    await write('').catch(() => undefined);
  });

  test('refuses a device such as a terminal, and a descriptor that is not open', async () => {
    await using handle = await open('/dev/null', 'r');
    for (const descriptor of [handle.fd, 1023])
      await expect(readDescriptor(descriptor, limits)).rejects.toMatchObject({ code: 'file-io' });
  });
});
