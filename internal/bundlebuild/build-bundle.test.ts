import { describe, expect, test } from '@jest/globals';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parseManifest, verifyComponents, type BundleCache } from '../bundle/index.ts';
import { elfFile, FakeBuildTools, temporaryDirectory } from '../testing/index.ts';
import { buildBundle } from './build-bundle.ts';
import { openBundleCache, type BuildContext } from './build-context.ts';
import { fakeBuildContext, type FakeReporter } from './fake-build-context.ts';

const signal = new AbortController().signal;
const VERSION = { kubernetesVersion: 'v1.35.4' };

describe('buildBundle()', () => {
  test('builds a complete bundle whose files match its manifest', async () => {
    await using made = await workshop();
    const { manifest, manifestPath } = await buildBundle(made.context, VERSION);
    expect(manifest.components).toHaveLength(28);
    expect(parseManifest(await readFile(manifestPath))).toEqual(manifest);
    expect(await made.bundles.store.missing(manifest)).toEqual([]);
    expect(await verifyComponents(made.bundles.store, manifest, { signal })).toEqual([]);
  });

  test('builds the same manifest on another machine', async () => {
    await using first = await workshop();
    await using second = await workshop();
    const { manifest } = await buildBundle(first.context, VERSION);
    expect((await buildBundle(second.context, VERSION)).manifest).toEqual(manifest);
  });

  test('builds nothing when everything is in the cache', async () => {
    await using made = await workshop();
    const first = await buildBundle(made.context, VERSION);
    const before = made.fake.ran.length;
    const second = await buildBundle(made.context, VERSION);
    expect(second).toEqual({ ...first, built: [] });
    expect(made.fake.ran).toHaveLength(before);
  });

  test('builds everything again with `rebuild`, with the same bytes', async () => {
    await using made = await workshop();
    const first = await buildBundle(made.context, VERSION);
    const second = await buildBundle(made.context, { ...VERSION, rebuild: true });
    expect(second.built).toHaveLength(28);
    expect(second.manifest).toEqual(first.manifest);
  });

  test('continues with the remaining components after a failure', async () => {
    await using made = await workshop();
    made.fake.broken.add('helm');
    await expect(buildBundle(made.context, VERSION)).rejects.toMatchObject({ code: 'exec-failed' });
    const done = made.reporter.messages.length;
    made.fake.broken.clear();
    const second = await buildBundle(made.context, VERSION);
    expect(second.built).toContain('helm');
    expect(second.built).toHaveLength(28 - done);
    expect(done).toBeGreaterThan(10);
  });

  test('builds only the component that is missing in the store', async () => {
    await using made = await workshop();
    const { manifest } = await buildBundle(made.context, VERSION);
    const kubelet = manifest.components.find((each) => each.name === 'kubelet');
    await made.bundles.store.remove(kubelet?.sha256 ?? '');
    expect((await buildBundle(made.context, VERSION)).built).toEqual(['kubelet']);
  });

  test('changes nothing on a machine that does not meet the requirements', async () => {
    await using made = await workshop();
    made.fake.lacks.add('gcc');
    await expect(buildBundle(made.context, VERSION)).rejects.toMatchObject({
      code: 'bundlebuild-requirements',
    });
    expect(made.fake.ran).toEqual([]);
    expect(await readdir(made.fake.cache)).toEqual(['go']);
  });

  test('removes its work directory when it is interrupted', async () => {
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

  test('refuses an unsupported version', async () => {
    await using made = await workshop();
    await expect(buildBundle(made.context, { kubernetesVersion: 'v1.2.3' })).rejects.toMatchObject({
      code: 'bundle-version-unknown',
    });
  });
});

describe('verifyComponents()', () => {
  test('lists exactly the damaged and the missing components', async () => {
    await using made = await workshop();
    const { manifest } = await buildBundle(made.context, VERSION);
    const store = made.bundles.store;
    const [damaged, missing] = ['kubelet', 'runc'].map((name) =>
      manifest.components.find((each) => each.name === name),
    );
    const path = await store.path(damaged?.sha256 ?? '');
    await made.context.ports.files.writeAtomic(path, 'something else');
    await store.remove(missing?.sha256 ?? '');
    expect(await verifyComponents(made.bundles.store, manifest, { signal })).toMatchObject([
      { name: 'kubelet', code: 'bundle-blob-corrupt' },
      { name: 'runc', code: 'bundle-blob-missing' },
    ]);
  });
});

describe('BundleCache', () => {
  test('read() returns the manifest, and list() returns the missing components', async () => {
    await using made = await workshop();
    expect(await made.bundles.list()).toEqual([]);
    const { manifest } = await buildBundle(made.context, VERSION);
    expect(await made.bundles.read('v1.35.4', 'amd64')).toEqual(manifest);
    await made.bundles.store.remove(manifest.components.find((each) => each.name === 'helm')?.sha256 ?? '');
    expect(await made.bundles.list()).toEqual([{ manifest, missing: ['helm'] }]);
  });

  test('read() of a missing bundle fails, and the fix is the command to build it', async () => {
    await using made = await workshop();
    await expect(made.bundles.read('v1.35.4', 'amd64')).rejects.toMatchObject({
      code: 'bundle-not-found',
      fix: expect.stringContaining('--kubernetes-version v1.35.4'),
    });
  });
});

interface Workshop extends AsyncDisposable {
  readonly fake: FakeBuildTools;
  readonly reporter: FakeReporter;
  readonly context: BuildContext;
  readonly bundles: BundleCache;
}

async function workshop(until = signal): Promise<Workshop> {
  const directory = await temporaryDirectory();
  const fake = new FakeBuildTools({ directory: directory.path, elf: elfFile() });
  await fake.installToolchain();
  const context = fakeBuildContext(fake, until);
  return {
    fake,
    reporter: context.reporter,
    context,
    bundles: openBundleCache(context),
    [Symbol.asyncDispose]: () => directory[Symbol.asyncDispose](),
  };
}
