import { expect, test } from '@jest/globals';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { DiskFiles } from '../file/index.ts';
import { packChart, readSourceFiles } from './pack-chart.ts';
import { readTar } from './archive/tar-reader.ts';

const CHARTS = join(import.meta.dirname, '../../cli/charts');

test.each(['flannel', 'hello', 'monitoring'])(
  'packChart() packs the whole %s chart into a directory of that name, with Chart.yaml first',
  async (name) => {
    const files = await readSourceFiles(new DiskFiles(), join(CHARTS, name));
    const paths: string[] = [];
    for await (const { path } of readTar(inOne(gunzipSync(await packChart(name, files))))) paths.push(path);
    expect(paths[0]).toBe(`${name}/Chart.yaml`);
    expect(paths).toContain(`${name}/values.schema.json`);
    expect(paths).toHaveLength(files.length);
  },
);

test('packChart() gives the same bytes whatever the order of the files', async () => {
  const files = await readSourceFiles(new DiskFiles(), join(CHARTS, 'flannel'));
  expect(await packChart('flannel', [...files].reverse())).toEqual(await packChart('flannel', files));
});

async function* inOne(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield await Promise.resolve(bytes);
}
