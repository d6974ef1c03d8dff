import { Secret } from '../secret/index.ts';
import { ObjectStoreError } from './errors.ts';

/** An access key of an S3-compatible store. */
export interface StoreCredentials {
  readonly accessKeyId: string;
  readonly secretAccessKey: Secret<string>;
}

const MAX_LINES = 1_000;
const PROFILE = 'default';
const VALUE = /^[\x21-\x7e]{1,256}$/;

/**
 * Parses a file in the format of AWS (`~/.aws/credentials`), and uses its profile `default`.
 * @param source names the file in an error; the error quotes nothing of its content
 * @throws ObjectStoreError `objectstore-credentials-invalid`
 */
export function parseStoreCredentials(source: string, text: Secret<string>): StoreCredentials {
  const values = new Map<string, string>();
  let profile = PROFILE;
  for (const line of text.reveal().split(/\r?\n/, MAX_LINES)) {
    const [, section] = /^\s*\[\s*([^\]]*?)\s*\]/.exec(line) ?? [];
    if (section !== undefined) profile = section;
    const at = line.indexOf('=');
    if (section === undefined && at > 0 && profile === PROFILE)
      values.set(line.slice(0, at).trim(), line.slice(at + 1).trim());
  }
  const accessKeyId = values.get('aws_access_key_id') ?? '';
  const secretAccessKey = values.get('aws_secret_access_key') ?? '';
  if (!VALUE.test(accessKeyId) || !VALUE.test(secretAccessKey))
    throw new ObjectStoreError(
      'objectstore-credentials-invalid',
      `reading ${source}: no aws_access_key_id and aws_secret_access_key in profile ${PROFILE}`,
    );
  return { accessKeyId, secretAccessKey: new Secret(secretAccessKey) };
}

/** The file with these credentials, as `parseStoreCredentials()` reads it. */
export function renderStoreCredentials({ accessKeyId, secretAccessKey }: StoreCredentials): Secret<string> {
  return new Secret(
    `[${PROFILE}]\naws_access_key_id = ${accessKeyId}\naws_secret_access_key = ${secretAccessKey.reveal()}\n`,
  );
}
