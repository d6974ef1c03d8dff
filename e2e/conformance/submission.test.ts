import { expect, test } from '@jest/globals';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parse } from 'yaml';
import { temporaryDirectory } from '../../internal/testing/index.ts';
import { submissionDirectory, writeSubmission } from './submission.ts';

test('writeSubmission() adds the files of a submission to its directory', async () => {
  await using directory = await temporaryDirectory();
  const target = submissionDirectory(directory.path, 'v1.37.2');
  expect(target).toBe(join(directory.path, 'v1.37/cluster'));
  await writeSubmission(target, { kubernetesVersion: 'v1.37.2', productVersion: '0.1.0', results: [] });
  expect(await readdir(target)).toEqual(['PRODUCT.yaml', 'README.md', 'results.json']);
  const product = parse(await readFile(join(target, 'PRODUCT.yaml'), 'utf8')) as object;
  expect(product).toMatchObject({ name: 'cluster', version: 'v0.1.0', type: 'distribution' });
  expect(await readFile(join(target, 'README.md'), 'utf8')).toContain('--release 1.37');
});
