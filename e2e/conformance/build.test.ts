import { expect, test } from '@jest/globals';
import { cacheKeys, testModule } from './build.ts';

const FROM = { architecture: 'amd64', imageRecipes: Buffer.from('recipes') };

test('testModule() compiles the tests of exactly this release', () => {
  const { from, tests } = testModule('v1.37.2');
  expect(from).toMatchObject({ modules: expect.arrayContaining(['k8s.io/kubernetes@v1.37.2']) });
  expect(tests).toEqual({ 'e2e.test': 'k8s.io/kubernetes/test/e2e' });
});

test('cacheKeys() changes with everything that a file depends on, and with nothing else', async () => {
  const keys = await cacheKeys('v1.37.2', FROM);
  expect(await cacheKeys('v1.37.2', { ...FROM })).toEqual(keys);
  expect(new Set(Object.values(keys)).size).toBe(3);
  const otherImages = await cacheKeys('v1.37.2', { ...FROM, imageRecipes: Buffer.from('others') });
  expect({ ...otherImages, images: keys.images }).toEqual(keys);
  expect(otherImages.images).not.toBe(keys.images);
  for (const other of [
    await cacheKeys('v1.36.3', FROM),
    await cacheKeys('v1.37.2', { ...FROM, architecture: 'arm64' }),
  ])
    for (const name of ['tests', 'ginkgo', 'images'] as const) expect(other[name]).not.toBe(keys[name]);
});
