import { beforeEach, describe, expect, test } from '@jest/globals';
import { createEncryptionKey, encryptionKeyFrom } from '../../../internal/keyset/index.ts';
import { Secret } from '../../../internal/secret/index.ts';
import { MemoryFiles } from '../../../internal/testing/index.ts';
import { PATHS } from '../settings.ts';
import {
  FIRST_KEY,
  isFirstEncryption,
  readFirstEncryption,
  renderEncryptionConfig,
} from './encryption-config.ts';

const key = encryptionKeyFrom(FIRST_KEY, new Secret(Buffer.alloc(32, 1).toString('base64')));
const next = createEncryptionKey(2);
const text = renderEncryptionConfig(['secrets', 'configmaps'], [key]);
let files: MemoryFiles;
const place = (content: string): Promise<void> => files.writeAtomic(PATHS.encryption, content);

beforeEach(async () => {
  files = new MemoryFiles();
  await files.makeDirectory('/etc/kubernetes/encryption');
});

test('renderEncryptionConfig() keeps the order of the keys, and lets API servers read unencrypted objects', () => {
  expect(JSON.parse(renderEncryptionConfig(['secrets'], [next, key]))).toMatchObject({
    kind: 'EncryptionConfiguration',
    resources: [
      {
        resources: ['secrets'],
        providers: [
          {
            secretbox: {
              keys: [next, key].map(({ name, secret }) => ({ name, secret: secret?.reveal() })),
            },
          },
          { identity: {} },
        ],
      },
    ],
  });
});

test('readFirstEncryption() reads key and resources of a control plane that was never rotated', async () => {
  await place(text);
  expect(await readFirstEncryption(files)).toEqual({ resources: ['secrets', 'configmaps'], key, older: [] });
  expect([isFirstEncryption(text), isFirstEncryption('')]).toEqual([true, true]);
  for (const keys of [[key, next], [next, key], [next]])
    expect(isFirstEncryption(renderEncryptionConfig(['secrets'], keys))).toBe(false);
});

describe('readFirstEncryption() refuses, without a key in the error,', () => {
  type Config = { resources: { resources: string[]; providers: object[] }[] };
  const mutate = (change: (of: Config['resources'][number]) => object): string => {
    const config = JSON.parse(text) as Config;
    return JSON.stringify({ ...config, resources: config.resources.map(change) });
  };
  test.each([
    { name: 'a configuration with two keys', given: renderEncryptionConfig(['secrets'], [key, next]) },
    {
      name: 'another provider',
      given: mutate((of) => ({ ...of, providers: [{ kms: {} }, ...of.providers] })),
    },
    {
      name: 'a configuration that does not allow unencrypted objects',
      given: mutate((of) => ({ ...of, providers: of.providers.slice(0, 1) })),
    },
    { name: 'a resource that it does not know', given: mutate((of) => ({ ...of, resources: ['pods'] })) },
    {
      name: 'a key of 16 bytes',
      given: text.replace(/"secret":"[^"]+"/, `"secret":"${Buffer.alloc(16).toString('base64')}"`),
    },
    { name: 'a truncated file', given: text.slice(0, 150) },
  ])('$name', async ({ given }) => {
    await place(given);
    const refused = expect(readFirstEncryption(files)).rejects;
    await refused.toMatchObject({ code: 'kubernetes-encryption-changed' });
    await expect(readFirstEncryption(files)).rejects.not.toThrow(/AQEBAQ|secret/);
  });
});
