import { z } from 'zod';
import type { FilePort } from '../../../internal/file/index.ts';
import {
  ENCRYPTABLE_RESOURCES,
  encryptionKeyFrom,
  type CurrentEncryption,
  type EncryptableResource,
  type EncryptionKey,
} from '../../../internal/keyset/index.ts';
import { Secret } from '../../../internal/secret/index.ts';
import { requireText } from '../credentials/key-pair.ts';
import { KubernetesError } from '../errors.ts';
import { PATHS } from '../settings.ts';

/** Name of the key that a cluster is created with. */
export const FIRST_KEY = 'key1';

/**
 * Renders the configuration with which API servers encrypt objects in etcd (apiserver.config.k8s.io/v1). The first key
 * encrypts, all keys decrypt. Unencrypted objects are readable too, because some may have been stored before encryption
 * was configured.
 */
export function renderEncryptionConfig(
  resources: readonly EncryptableResource[],
  keys: readonly EncryptionKey[],
): string {
  const providers = keys.flatMap(({ name, secret }) =>
    secret === undefined ? [] : [{ name, secret: secret.reveal() }],
  );
  const config = {
    apiVersion: 'apiserver.config.k8s.io/v1',
    kind: 'EncryptionConfiguration',
    resources: [{ resources, providers: [{ secretbox: { keys: providers } }, { identity: {} }] }],
  };
  return `${JSON.stringify(config)}\n`;
}

/** The names that `createEncryptionKey()` gives. */
const ROTATED_KEY = /"name":"g[0-9]+-[0-9a-f]{12}"/;

const shape = z.object({
  resources: z.tuple([
    z.object({
      resources: z.array(z.enum(ENCRYPTABLE_RESOURCES)).min(1),
      providers: z.tuple([
        z.strictObject({
          secretbox: z.object({ keys: z.tuple([z.object({ name: z.string(), secret: z.string() })]) }),
        }),
        z.strictObject({ identity: z.strictObject({}) }),
      ]),
    }),
  ]),
});

/**
 * Reads the encryption that a control plane was created with: one key.
 * @throws KubernetesError `kubernetes-encryption-changed` if somebody has changed the configuration
 */
export async function readFirstEncryption(files: FilePort): Promise<CurrentEncryption> {
  const path = PATHS.encryption;
  try {
    const { resources } = shape.parse(JSON.parse(await requireText(files, path)));
    const [{ resources: covered, providers }] = resources;
    const [{ name, secret }] = providers[0].secretbox.keys;
    return { resources: covered, key: encryptionKeyFrom(name, new Secret(secret)), older: [] };
  } catch (error) {
    if (error instanceof KubernetesError) throw error;
    throw new KubernetesError(
      'kubernetes-encryption-changed',
      `reading ${path}: another configuration expected`,
      {
        details: { path },
      },
    );
  }
}

/** Whether this is a configuration from before the first rotation of the encryption key. */
export function isFirstEncryption(text: string): boolean {
  return !ROTATED_KEY.test(text);
}
