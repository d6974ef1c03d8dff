import assert from 'node:assert/strict';
import { test } from 'node:test';
import { resolve } from 'node:path';
import { DEFAULT_KUBERNETES_VERSION } from '../../internal/bundle/index.ts';
import { formatResults } from './results.ts';
import { prepareRun, readQuickSpecs, runSpecs, type RunOptions } from './run.ts';
import { createBed } from './test-bed.ts';

await test('the quick conformance specs pass on a control plane and a worker', async (story) => {
  const kubernetesVersion = DEFAULT_KUBERNETES_VERSION;
  const options: RunOptions = {
    kubernetesVersion,
    selection: { focus: undefined, skip: undefined, shard: undefined, quick: true },
    procs: 4,
    directory: resolve(import.meta.dirname, '../../dist/conformance-quick'),
    signal: new AbortController().signal,
    say: (text) => story.diagnostic(text),
  };
  const prepared = await prepareRun(options);
  assert.deepEqual(prepared.names, await readQuickSpecs(), 'every name of quick-specs.txt is a spec');
  await using bed = await createBed({ kubernetesVersion, controlPlanes: 1, workers: 1 });
  await bed.importImages(prepared.build.images);
  const results = await runSpecs(options, prepared, bed);
  story.diagnostic(formatResults(results));
  assert.deepEqual(
    results.filter(({ outcome }) => outcome === 'failed'),
    [],
  );
});
