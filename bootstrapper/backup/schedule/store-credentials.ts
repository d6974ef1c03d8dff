import { z } from 'zod';
import { COPY_STORE_SECRET } from '../../../internal/backup/index.ts';
import { findCoded } from '../../../internal/errors/index.ts';
import { parseJson } from '../../../internal/file/index.ts';
import type { KubeClient } from '../../../internal/kube/client/index.ts';
import {
  ObjectStoreError,
  parseStoreCredentials,
  type StoreCredentials,
} from '../../../internal/objectstore/index.ts';
import { Secret } from '../../../internal/secret/index.ts';

const { namespace, name, key } = COPY_STORE_SECRET;
const PATH = `/api/v1/namespaces/${namespace}/secrets/${name}`;
const SOURCE = `Secret ${namespace}/${name}`;
const secretShape = z.object({ data: z.object({ [key]: z.base64() }) });

/**
 * Reads the access key of the S3-compatible store from its Secret, with the administrator credentials that only control
 * planes have.
 * @throws ObjectStoreError `objectstore-credentials-invalid`, KubeError
 */
export async function readStoreCredentials(
  client: Pick<KubeClient, 'getText'>,
  signal: AbortSignal,
): Promise<StoreCredentials> {
  const text = await client.getText(PATH, signal).catch((error: unknown) => {
    if (findCoded(error)?.code !== 'kube-not-found') throw error;
    throw new ObjectStoreError('objectstore-credentials-invalid', `reading ${SOURCE}: not found`);
  });
  // The error of the parser is dropped, because it could quote the secret.
  const { data: secret } = secretShape.safeParse(parseJson(text));
  const file = Buffer.from(secret?.data[key] ?? '', 'base64').toString('utf8');
  return parseStoreCredentials(SOURCE, new Secret(file));
}
