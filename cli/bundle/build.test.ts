import { describe, expect, test } from '@jest/globals';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parseManifest } from '../../internal/bundle/index.ts';
import { elfFile, FakeBuildTools, temporaryDirectory } from '../../internal/testing/index.ts';
import { RecordingHost } from '../host/index.ts';
import { buildBundle } from './build.ts';
import { openStore, type BundleContext } from './context.ts';
import { FetchHttp } from './http.ts';
import { listBundles, readBundle } from './read.ts';
import { verifyBundle } from './verify.ts';

const signal = new AbortController().signal;
const VERSION = { kubernetesVersion: 'v1.35.4' };

describe('buildBundle()', () => {
  test('makes a whole bundle whose every file is what the manifest says', async () => {
    await using made = await workshop();
    const { manifest, manifestPath } = await buildBundle(made.context, VERSION);
    expect(manifest.components).toHaveLength(27);
    expect(parseManifest(await readFile(manifestPath))).toEqual(manifest);
    expect(await openStore(made.context).missing(manifest)).toEqual([]);
    expect(await verifyBundle(made.context, manifest)).toEqual([]);
  });

  test('gives the same manifest on another machine', async () => {
    await using first = await workshop();
    await using second = await workshop();
    const { manifest } = await buildBundle(first.context, VERSION);
    expect((await buildBundle(second.context, VERSION)).manifest).toEqual(manifest);
  });

  test('makes nothing when everything is there', async () => {
    await using made = await workshop();
    const first = await buildBundle(made.context, VERSION);
    const before = made.fake.ran.length;
    const second = await buildBundle(made.context, VERSION);
    expect(second).toEqual({ ...first, made: [] });
    expect(made.fake.ran).toHaveLength(before);
  });

  test('makes everything anew when told so, and the same', async () => {
    await using made = await workshop();
    const first = await buildBundle(made.context, VERSION);
    const second = await buildBundle(made.context, { ...VERSION, rebuild: true });
    expect(second.made).toHaveLength(27);
    expect(second.manifest).toEqual(first.manifest);
  });

  test('goes on after a failure with what was left', async () => {
    await using made = await workshop();
    made.fake.broken.add('helm');
    await expect(buildBundle(made.context, VERSION)).rejects.toMatchObject({ code: 'exec-failed' });
    const done = made.host.records.filter((each) => each.kind === 'say').length;
    made.fake.broken.clear();
    const second = await buildBundle(made.context, VERSION);
    expect(second.made).toContain('helm');
    expect(second.made).toHaveLength(27 - done);
    expect(done).toBeGreaterThan(10);
  });

  test('makes again what has vanished from the store, and only that', async () => {
    await using made = await workshop();
    const { manifest } = await buildBundle(made.context, VERSION);
    const kubelet = manifest.components.find((each) => each.name === 'kubelet');
    await openStore(made.context).remove(kubelet?.sha256 ?? '');
    expect((await buildBundle(made.context, VERSION)).made).toEqual(['kubelet']);
  });

  test('changes nothing on a machine that lacks something', async () => {
    await using made = await workshop();
    made.fake.lacks.add('gcc');
    await expect(buildBundle(made.context, VERSION)).rejects.toMatchObject({
      code: 'bundlebuild-requirements',
    });
    expect(made.fake.ran).toEqual([]);
    expect(await readdir(made.fake.cache)).toEqual(['go']);
  });

  test('leaves no work directory behind, whether it succeeds or is interrupted', async () => {
    const stopping = new AbortController();
    await using made = await workshop(stopping.signal);
    const run = made.fake.run.bind(made.fake);
    made.fake.run = (command) => {
      if (command.argv.includes('build')) stopping.abort(new Error('interrupted'));
      return run(command);
    };
    await expect(buildBundle(made.context, VERSION)).rejects.toThrow('interrupted');
    expect(await readdir(join(made.fake.cache, 'build'))).toEqual([]);
  });

  test('removes the work directory of a run that was killed a day ago', async () => {
    await using made = await workshop();
    const abandoned = join(made.fake.cache, 'build', 'abandoned');
    await made.context.ports.files.makeDirectory(abandoned);
    const { modifiedMs = 0 } = (await made.context.ports.files.stat(abandoned)) ?? {};
    await made.fake.clock.advance(modifiedMs + 25 * 3600 * 1000 - made.fake.clock.nowMs());
    await buildBundle(made.context, VERSION);
    expect(await readdir(join(made.fake.cache, 'build'))).toEqual([]);
  });

  test('refuses a version that has no recipe', async () => {
    await using made = await workshop();
    await expect(buildBundle(made.context, { kubernetesVersion: 'v1.2.3' })).rejects.toMatchObject({
      code: 'bundle-version-unknown',
    });
  });
});

describe('verifyBundle()', () => {
  test('names every damaged and every missing component, and no other', async () => {
    await using made = await workshop();
    const { manifest } = await buildBundle(made.context, VERSION);
    const store = openStore(made.context);
    const [damaged, missing] = ['kubelet', 'runc'].map((name) =>
      manifest.components.find((each) => each.name === name),
    );
    const path = await store.path(damaged?.sha256 ?? '');
    await made.context.ports.files.writeAtomic(path, 'something else');
    await store.remove(missing?.sha256 ?? '');
    expect(await verifyBundle(made.context, manifest)).toMatchObject([
      { name: 'kubelet', code: 'bundle-blob-corrupt' },
      { name: 'runc', code: 'bundle-blob-missing' },
    ]);
  });
});

describe('readBundle() and listBundles()', () => {
  test('give what was made and say what it lacks', async () => {
    await using made = await workshop();
    expect(await listBundles(made.context)).toEqual([]);
    const { manifest } = await buildBundle(made.context, VERSION);
    expect(await readBundle(made.context, 'v1.35.4')).toEqual(manifest);
    await openStore(made.context).remove(
      manifest.components.find((each) => each.name === 'helm')?.sha256 ?? '',
    );
    expect(await listBundles(made.context)).toEqual([{ manifest, missing: ['helm'] }]);
  });

  test('say that there is none, and how to make it', async () => {
    await using made = await workshop();
    await expect(readBundle(made.context, 'v1.34.4')).rejects.toMatchObject({
      code: 'bundle-not-found',
      fix: expect.stringContaining('--kubernetes-version v1.34.4'),
    });
  });
});

interface Workshop extends AsyncDisposable {
  readonly fake: FakeBuildTools;
  readonly host: RecordingHost;
  readonly context: BundleContext;
}

async function workshop(until = signal): Promise<Workshop> {
  const folder = await temporaryDirectory();
  const fake = new FakeBuildTools({ folder: folder.path, elf: elfFile() });
  await fake.installToolchain();
  const { ports, cache, machine, env } = fake;
  const host = new RecordingHost();
  const resources = {
    charts: join(import.meta.dirname, '../charts'),
    programs: join(import.meta.dirname, 'programs'),
  };
  const context = {
    host,
    ports: { ...ports, http: new FetchHttp() },
    cache,
    resources,
    machine,
    env,
    signal: until,
  };
  return { fake, host, context, [Symbol.asyncDispose]: () => folder[Symbol.asyncDispose]() };
}
