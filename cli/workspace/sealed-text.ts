import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';
import { z } from 'zod';
import { canonicalJson } from '../../internal/crypto/index.ts';
import { parseJson } from '../../internal/file/index.ts';
import { Secret } from '../../internal/secret/index.ts';
import { WorkspaceError } from './errors.ts';
import type { Passphrase } from './passphrase.ts';

/** What an encrypted file contains; part of the authenticated header, so that one file cannot replace another. */
export type SecretKind = 'owner-key' | 'master-secret' | 'operator-identity';

const FORMAT = 'cluster-encrypted-file';
const CIPHER = 'aes-256-gcm';
const SALT_BYTES = 32;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const MAX_CONTENT_BYTES = 128 * 1024;
/** Memory of scrypt: 32 MiB at the least, 1 GiB at the most. A file is not trusted before it is decrypted. */
const MIN_LOG_N = 15;
const MAX_LOG_N = 20;

const bytes = (least: number, most = least) =>
  z
    .base64()
    .max(4 * Math.ceil(most / 3))
    .transform((text) => new Uint8Array(Buffer.from(text, 'base64')))
    .refine(({ length }) => length >= least && length <= most);

/** The format is documented in docs/decisions/workspace-passphrase.md. */
const envelopeSchema = z.strictObject({
  format: z.literal(FORMAT),
  version: z.literal(1),
  content: z.enum(['owner-key', 'master-secret', 'operator-identity']),
  kdf: z.strictObject({
    name: z.literal('scrypt'),
    logN: z.int().min(MIN_LOG_N).max(MAX_LOG_N),
    r: z.literal(8),
    p: z.literal(1),
    salt: bytes(SALT_BYTES),
  }),
  cipher: z.strictObject({ name: z.literal(CIPHER), nonce: bytes(NONCE_BYTES), tag: bytes(TAG_BYTES) }),
  ciphertext: bytes(1, MAX_CONTENT_BYTES),
});

type Header = Pick<z.output<typeof envelopeSchema>, 'content' | 'kdf'> & {
  readonly cipher: { readonly nonce: Uint8Array };
};

/** Whether the text of a file is encrypted, or claims to be. */
export function isSealed(text: string): boolean {
  const json = parseJson(text);
  return typeof json === 'object' && json !== null && 'format' in json && json.format === FORMAT;
}

/** Encrypts the text of a file. */
export async function sealText(
  text: Secret<string>,
  { kind, passphrase }: { readonly kind: SecretKind; readonly passphrase: Passphrase },
): Promise<string> {
  const kdf = { name: 'scrypt', ...passphrase.newCost } as const;
  const header: Header = { content: kind, kdf, cipher: { nonce: new Uint8Array(randomBytes(NONCE_BYTES)) } };
  const key = await passphrase.deriveKey(kdf);
  const cipher = createCipheriv(CIPHER, key.reveal(), header.cipher.nonce);
  cipher.setAAD(boundData(header));
  const ciphertext = Buffer.concat([cipher.update(text.reveal(), 'utf8'), cipher.final()]);
  const { nonce } = header.cipher;
  const file = {
    format: FORMAT,
    version: 1,
    content: kind,
    kdf: { ...kdf, salt: base64(kdf.salt) },
    cipher: { name: CIPHER, nonce: base64(nonce), tag: base64(cipher.getAuthTag()) },
    ciphertext: base64(ciphertext),
  };
  return `${JSON.stringify(file, undefined, 2)}\n`;
}

/**
 * Decrypts the text of a file. The bounds of its parameters are checked before any work is done.
 * @param path for errors
 * @throws WorkspaceError `workspace-key-invalid`, `workspace-passphrase-wrong`
 */
export async function openSealed(
  sealed: string,
  { kind, passphrase, path }: { kind: SecretKind; passphrase: Passphrase; path: string },
): Promise<Secret<string>> {
  const envelope = envelopeSchema.safeParse(parseJson(sealed)).data;
  if (envelope?.content !== kind)
    throw new WorkspaceError(
      'workspace-key-invalid',
      `reading ${path}: not an encrypted ${kind} of version 1`,
    );
  const key = await passphrase.deriveKey(envelope.kdf);
  const { nonce, tag } = envelope.cipher;
  const decipher = createDecipheriv(CIPHER, key.reveal(), nonce, { authTagLength: TAG_BYTES });
  decipher.setAAD(boundData(envelope));
  decipher.setAuthTag(tag);
  try {
    return new Secret(
      Buffer.concat([decipher.update(envelope.ciphertext), decipher.final()]).toString('utf8'),
    );
  } catch {
    // The message of the cipher's error is left out: it adds nothing and differs between releases of Node.js.
    throw new WorkspaceError(
      'workspace-passphrase-wrong',
      `reading ${path}: the passphrase does not open it`,
    );
  }
}

/** Everything in the file but its ciphertext is authenticated with it. */
function boundData({ content, kdf, cipher }: Header): Uint8Array {
  const { logN, r, p, salt } = kdf;
  const bound = { format: FORMAT, version: 1, content, cipher: CIPHER, nonce: base64(cipher.nonce) };
  return Buffer.from(canonicalJson({ ...bound, kdf: 'scrypt', logN, r, p, salt: base64(salt) }));
}

function base64(value: Uint8Array): string {
  return Buffer.from(value).toString('base64');
}
