import { expect, test } from '@jest/globals';
import { readText } from '../../internal/file/index.ts';
import { MemoryFiles, settle, superviseForTest } from '../../internal/testing/index.ts';
import { PATHS } from '../kubernetes/index.ts';
import { authenticationWorker } from './authentication-worker.ts';
import { createFakeRoleValues } from './fake-role-values.ts';
import { settings } from './fake-node.ts';

async function urlsIn(files: MemoryFiles): Promise<readonly string[] | undefined> {
  const text = await readText(files, PATHS.authentication);
  if (text === undefined) return undefined;
  const { jwt } = JSON.parse(text) as {
    readonly jwt: readonly { readonly issuer: { readonly url: string } }[];
  };
  return jwt.map(({ issuer }) => issuer.url);
}

const withIssuers = (...urls: readonly string[]): string =>
  JSON.stringify({
    authentication: {
      issuers: urls.map((url, at) => ({ url, audiences: ['a'], usernamePrefix: `${at}:` })),
    },
  });

test('the authentication worker follows the signed configuration on control planes only, and keeps issuers that it cannot replace', async () => {
  const files = new MemoryFiles();
  const values = createFakeRoleValues();
  await using tree = superviseForTest(authenticationWorker({ reads: values, files }));
  values.clusterSettings.set(settings);
  values.signedConfiguration.set(withIssuers('https://a.example'));
  values.kubernetesStatus.set({ version: 'v1', controlPlane: false });
  await settle();
  expect(await urlsIn(files)).toBeUndefined();
  values.kubernetesStatus.set({ version: 'v1', controlPlane: true });
  await settle();
  expect(await urlsIn(files)).toEqual(['https://a.example']);
  values.signedConfiguration.set(withIssuers('https://a.example', 'https://b.example'));
  await settle();
  expect(await urlsIn(files)).toEqual(['https://a.example', 'https://b.example']);
  values.signedConfiguration.set(JSON.stringify({ authentication: { issuers: [], later: true } }));
  await settle();
  expect(await urlsIn(files)).toEqual(['https://a.example', 'https://b.example']);
  expect(tree.records.some(({ level }) => level === 'warn')).toBe(true);
  values.signedConfiguration.set('{}');
  await settle();
  expect(await urlsIn(files)).toEqual([]);
});
