import { afterEach, describe, expect, test } from '@jest/globals';
import { once } from 'node:events';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DiskFiles, type FilePort, type FileStat } from '../../../internal/file/index.ts';
import { closeOpened, opened, type MemoryFiles } from '../../../internal/testing/index.ts';
import { BLOB, BLOB_HASH, MANIFEST } from './fake-node.ts';
import { contextOf, ROOT, start } from './fake-workstation.ts';
import { runInit } from '../index.ts';

afterEach(closeOpened);

describe('runInit() with a broken connection', () => {
  test('reconnects after each cut and shows every phase once', async () => {
    const { files, node, options } = await start();
    node.cutsAfter = [1, 2, 3, 5];
    const context = contextOf(files);
    await runInit(context, options);
    expect(node.inits.map(({ afterSequence }) => afterSequence)).toEqual([0n, 1n, 2n, 3n, 5n]);
    expect(new Set(node.inits.map(({ initId }) => initId)).size).toBe(1);
    expect(context.host.codes.filter((code) => code.startsWith('init-phase'))).toEqual([
      'init-phase-lock',
      'init-phase-consensus',
      'init-phase-node',
    ]);
  });

  test('refuses at once a machine that is a node: it has closed its init port, and its kubelet responds', async () => {
    const { files, node, options } = await start();
    const [init, kubelet] = [createServer(), createServer()];
    await once(init.listen(0, '127.0.0.71'), 'listening');
    const { port } = init.address() as AddressInfo;
    init.close();
    await once(kubelet.listen(10_250, '127.0.0.71'), 'listening');
    await using _kubelet = { [Symbol.asyncDispose]: async () => void (await once(kubelet.close(), 'close')) };
    const other = { ...options, node: `127.0.0.71:${port}` };
    await expect(runInit(contextOf(files), other)).rejects.toMatchObject({ code: 'cluster-machine-is-node' });
    expect(node.inits).toHaveLength(0);
  });

  test('shows that it reconnects, also if the connection breaks between two phases', async () => {
    const { files, node, options } = await start();
    node.cutsAfter = [2];
    const context = contextOf(files);
    await runInit(context, options);
    expect(context.host.codes.filter((code) => /^init-(phase|attach)/.test(code))).toEqual([
      'init-phase-lock',
      'init-attach',
      'init-phase-consensus',
      'init-phase-node',
    ]);
  });

  test('drops a connection without heartbeats, and reconnects', async () => {
    const { files, node, options } = await start();
    const proxy = new StallingProxy(node.port);
    const endpoint = await proxy.listen();
    const working = Promise.withResolvers<void>();
    node.hold = working.promise;
    const running = runInit(contextOf(files), { ...options, node: endpoint });
    while (node.inits.length === 0) await new Promise((resolve) => setTimeout(resolve, 5));
    proxy.stall();
    working.resolve();
    await running;
    expect(node.inits.length).toBeGreaterThan(1);
  });

  test('lists components that neither the machine nor the workstation has', async () => {
    const { node, options, files } = await start();
    node.blobs.clear();
    await expect(runInit(contextOf(files), options)).rejects.toMatchObject({
      code: 'cluster-bundle-missing',
      details: { absent: ['etcd'] },
    });
    expect(node.inits).toHaveLength(0);
  });

  test('uploads missing components, and resumes at the first missing byte after a cut', async () => {
    const { node, options, files } = await start();
    const cache = await mkdtemp(join(tmpdir(), 'cluster-upload-'));
    await using _remove = { [Symbol.asyncDispose]: () => rm(cache, { recursive: true }) };
    await mkdir(join(cache, 'blobs', 'sha256'), { recursive: true });
    await writeFile(join(cache, 'blobs', 'sha256', BLOB_HASH), BLOB);
    node.blobs.clear();
    node.cutsAfter = [700_000];
    const context = contextOf(new SplitFiles(files, cache));
    await runInit({ ...context, paths: { ...context.paths, cache } }, options);
    expect(node.blobs.get(BLOB_HASH)?.equals(BLOB)).toBe(true);
    expect(node.uploadOffsets[0]).toBe(0);
    expect(node.uploadOffsets[1]).toBeGreaterThan(600_000);
  });

  test('reports at Ctrl-C that the init continues and how to attach again', async () => {
    const { files, node, options } = await start();
    const stopping = new AbortController();
    const working = Promise.withResolvers<void>();
    node.hold = working.promise;
    const context = contextOf(files, stopping.signal);
    const running = runInit(context, options);
    while (node.inits.length === 0) await new Promise((resolve) => setTimeout(resolve, 5));
    stopping.abort(new Error('SIGINT'));
    await expect(running).rejects.toThrow('SIGINT');
    working.resolve();
    expect(context.host.codes).toContain('init-detached');
    expect((await files.list(ROOT)).includes('.lock')).toBe(false);
  });
});

/** A TCP proxy that can stop forwarding without closing the connection. */
class StallingProxy implements AsyncDisposable {
  readonly #server = createServer((near) => this.#pair(near));
  readonly #pairs = new Set<Socket>();
  readonly #port: number;
  stalled = false;

  constructor(port: number) {
    this.#port = port;
  }

  async listen(): Promise<string> {
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
    opened(this);
    return `127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Stops forwarding on the current connections; later connections work. */
  stall(): void {
    for (const socket of this.#pairs) socket.unpipe().pause();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.#pairs) socket.destroy();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #pair(near: Socket): void {
    const far = connect(this.#port, '127.0.0.1');
    for (const socket of [near, far]) {
      this.#pairs.add(socket);
      socket.on('error', () => undefined);
    }
    near.pipe(far).on('close', () => near.destroy());
    far.pipe(near).on('close', () => far.destroy());
  }
}

/** A workspace in memory, and a cache on disk, because blobs are streamed from files. */
class SplitFiles extends DiskFiles {
  readonly #memory: MemoryFiles;
  readonly #cache: string;

  constructor(memory: MemoryFiles, cache: string) {
    super();
    this.#memory = memory;
    this.#cache = cache;
  }

  override read(path: string, maxBytes: number): Promise<Uint8Array | undefined> {
    if (path.startsWith(join(this.#cache, 'bundles'))) return Promise.resolve(MANIFEST);
    return this.#memory.read(path, maxBytes);
  }

  override stat(path: string): Promise<FileStat | undefined> {
    return path.startsWith(this.#cache) ? super.stat(path) : this.#memory.stat(path);
  }

  override writeAtomic(...args: Parameters<FilePort['writeAtomic']>): Promise<void> {
    return this.#memory.writeAtomic(...args);
  }

  override createExclusive(...args: Parameters<FilePort['createExclusive']>): Promise<boolean> {
    return this.#memory.createExclusive(...args);
  }

  override makeDirectory(path: string): Promise<void> {
    return this.#memory.makeDirectory(path);
  }

  override remove(path: string): Promise<void> {
    return this.#memory.remove(path);
  }

  override rename(from: string, to: string): Promise<void> {
    return this.#memory.rename(from, to);
  }

  override list(path: string): Promise<readonly string[]> {
    return this.#memory.list(path);
  }
}
