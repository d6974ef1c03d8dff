import { describe, expect, test } from '@jest/globals';
import { createHash } from 'node:crypto';
import { BlobStore } from '../../bundle/index.ts';
import { DiskFiles, DiskStreams } from '../../file/index.ts';
import { FakeClock, FileServer, temporaryDirectory } from '../../testing/index.ts';
import type { Clock } from '../../clock/index.ts';
import { downloadBlob, downloadText } from './download-blob.ts';
import { FetchHttp } from './http-port.ts';

const BYTES = Buffer.from('0123456789'.repeat(30_000));
const SHA256 = createHash('sha256').update(BYTES).digest('hex');
const PATH = '/release/kubelet';

describe('downloadBlob()', () => {
  test('downloads a file into the store', async () => {
    await using place = await startPlace();
    await place.download();
    expect(await place.verified()).toBe(true);
    expect(place.server.asked).toEqual([`GET ${PATH}`]);
  });

  test('resumes at the byte at which the connection was interrupted', async () => {
    await using place = await startPlace();
    place.server.cuts.set(PATH, 100_000);
    await place.download();
    expect(await place.verified()).toBe(true);
    const [first, second] = place.server.asked;
    expect(first).toBe(`GET ${PATH}`);
    expect(second).toMatch(/ bytes=[1-9]\d*-$/);
  });

  test('resumes the download of an earlier run', async () => {
    await using place = await startPlace();
    await place.store.append(SHA256, 0, BYTES.subarray(0, 12_345));
    await place.download();
    expect(await place.verified()).toBe(true);
    expect(place.server.asked).toEqual([`GET ${PATH} bytes=12345-`]);
  });

  test('starts again when the server does not support ranges', async () => {
    await using place = await startPlace();
    place.server.ranges = false;
    await place.store.append(SHA256, 0, BYTES.subarray(0, 12_345));
    await place.download();
    expect(await place.verified()).toBe(true);
  });

  test('downloads nothing, but verifies a file that an earlier run has downloaded completely', async () => {
    await using place = await startPlace();
    await place.store.append(SHA256, 0, BYTES);
    await place.download();
    expect(await place.verified()).toBe(true);
  });

  test('refuses a file whose hash differs from the published one, and downloads it again the next time', async () => {
    await using place = await startPlace();
    place.server.files.set(PATH, Buffer.concat([BYTES.subarray(1), Buffer.from('x')]));
    await expect(place.download()).rejects.toMatchObject({
      code: 'bundlebuild-checksum',
      message: expect.stringContaining('kubelet'),
    });
    expect(await place.store.has(SHA256)).toBe(false);
    expect(await place.store.partialSize(SHA256)).toBe(0);
    place.server.files.set(PATH, BYTES);
    await place.download();
    expect(await place.verified()).toBe(true);
  });

  test('gives up after five attempts when the server fails', async () => {
    await using place = await startPlace();
    place.server.statuses.set(PATH, 503);
    await expect(place.download()).rejects.toMatchObject({ code: 'bundlebuild-download', retryable: true });
    expect(place.server.asked).toHaveLength(5);
    expect(place.clock.slept).toEqual([500, 1000, 2000, 4000]);
  });

  test('sends one request for a file that does not exist', async () => {
    await using place = await startPlace();
    place.server.files.clear();
    await expect(place.download()).rejects.toMatchObject({ code: 'bundlebuild-download', retryable: false });
    expect(place.server.asked).toHaveLength(1);
  });

  test('stops when its signal fires and keeps the downloaded bytes', async () => {
    await using place = await startPlace();
    const stopping = new AbortController();
    const work = place.download(stopping.signal, () => stopping.abort(new Error('interrupted')));
    await expect(work).rejects.toThrow('interrupted');
    expect(await place.store.partialSize(SHA256)).toBeGreaterThan(0);
  });
});

test('downloadText() refuses a text that never ends', async () => {
  await using place = await startPlace();
  place.server.files.set('/SHA256SUMS', new Uint8Array(2 * 1024 * 1024));
  const signal = new AbortController().signal;
  const fetching = downloadText({ ports: place.ports, signal }, `${place.server.url}/SHA256SUMS`);
  await expect(fetching).rejects.toMatchObject({ code: 'bundlebuild-download', retryable: false });
});

test('downloadText() fails when the server stalls', async () => {
  const clock = new FakeClock();
  const silent = { get: () => Promise.resolve({ offset: 0, body: neverEnding() }) };
  const ports = { files: new DiskFiles(), streams: new DiskStreams(), commands: absent, clock, http: silent };
  const fetching = expect(
    downloadText({ ports, signal: new AbortController().signal }, 'https://example.org/x'),
  ).rejects.toMatchObject({ code: 'bundlebuild-download', retryable: true });
  await clock.advance(30_000);
  await fetching;
  expect(clock.sleeping).toBe(0);
});

async function* neverEnding(): AsyncGenerator<Uint8Array> {
  yield await new Promise<Uint8Array>(() => undefined);
}

const absent = {
  run: () => Promise.reject(new TypeError('downloading runs no programs')),
};

/** A clock whose short sleeps end at once and are recorded. The timeouts of requests never fire. */
class HastyClock implements Clock {
  readonly slept: number[] = [];

  nowMs(): number {
    return 0;
  }

  monotonicMs(): number {
    return 0;
  }

  sleep(ms: number, signal: AbortSignal): Promise<void> {
    if (ms < 30_000) {
      this.slept.push(ms);
      return Promise.resolve();
    }
    return new Promise((_, reject) => {
      signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true });
    });
  }
}

async function startPlace() {
  const directory = await temporaryDirectory();
  const server = await FileServer.start();
  server.files.set(PATH, BYTES);
  const clock = new HastyClock();
  const files = new DiskFiles();
  const streams = new DiskStreams();
  const ports = { files, streams, commands: absent, clock, http: new FetchHttp() };
  const store = new BlobStore({ files, streams, roots: [directory.path] });
  const never = new AbortController().signal;
  return {
    server,
    clock,
    ports,
    store,
    download: (signal = never, onBytes: (value: number) => void = () => undefined) =>
      downloadBlob(
        { ports, signal },
        store,
        { url: `${server.url}${PATH}`, name: 'kubelet', sha256: SHA256 },
        onBytes,
      ),
    verified: async () => (await store.verify(SHA256, never)) !== '',
    async [Symbol.asyncDispose]() {
      await server[Symbol.asyncDispose]();
      await directory[Symbol.asyncDispose]();
    },
  };
}
