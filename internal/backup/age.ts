import {
  createCipheriv,
  createDecipheriv,
  createHmac,
  diffieHellman,
  generateKeyPairSync,
  hkdfSync,
  randomBytes,
  timingSafeEqual,
} from 'node:crypto';
import { rawX25519, x25519PrivateKey, x25519PublicKey } from '../crypto/index.ts';
import { ByteReader } from './byte-reader.ts';
import { BackupError } from './errors.ts';
import { parseRecipient, type RecoveryKey } from './recovery-key.ts';

const VERSION_LINE = 'age-encryption.org/v1\n';
const CHUNK_BYTES = 64 * 1024;
const TAG_BYTES = 16;
const NONCE_BYTES = 12;
const FILE_KEY_BYTES = 16;
const MAX_HEADER_BYTES = 16 * 1024;
const X25519_INFO = 'age-encryption.org/v1/X25519';
const STANZA = /^-> X25519 ([A-Za-z0-9+/]{43})\n([A-Za-z0-9+/]{43})\n/;
const MAC = /^--- ([A-Za-z0-9+/]{43})\n$/;

/**
 * Encrypts a stream in the age format, version 1, to X25519 recipients ("age1…"). Written with the ciphers of
 * node:crypto instead of `age-encryption` from npm: that package has five dependencies and encrypts in JavaScript, four
 * times slower, in the agent, which also keeps the node alive (docs/decisions/backup-file.md).
 * @throws BackupError `backup-recipient-invalid`
 */
export async function* encryptAge(
  plain: AsyncIterable<Uint8Array>,
  recipients: readonly string[],
): AsyncGenerator<Uint8Array> {
  const fileKey = randomBytes(FILE_KEY_BYTES);
  const stanzas = recipients.map((recipient) => wrap(fileKey, parseRecipient(recipient)));
  const head = `${VERSION_LINE}${stanzas.join('')}---`;
  yield Buffer.from(`${head} ${base64(macOf(fileKey, head))}\n`, 'utf8');
  const nonce = randomBytes(16);
  yield nonce;
  const key = payloadKey(fileKey, nonce);
  const reader = new ByteReader(plain, () => new Error('never thrown by takeUpTo'));
  let chunk = await reader.takeUpTo(CHUNK_BYTES);
  for (let counter = 0; ; counter++) {
    const isLast = await reader.isAtEnd();
    yield seal(key, nonceOf(counter, isLast), chunk);
    if (isLast) return;
    chunk = await reader.takeUpTo(CHUNK_BYTES);
  }
}

/**
 * Decrypts a stream in the age format. Every chunk was authenticated before it is yielded, but only the end of the stream shows
 * that none is missing.
 * @throws BackupError `backup-no-recovery-key`, `backup-truncated`, `backup-malformed`
 */
export async function* decryptAge(
  sealed: AsyncIterable<Uint8Array>,
  keys: readonly RecoveryKey[],
): AsyncGenerator<Uint8Array> {
  const reader = new ByteReader(sealed, (missing) => {
    return new BackupError('backup-truncated', `decrypting a backup: ${missing} bytes missing`);
  });
  const fileKey = openHeader(await readHeader(reader), keys);
  const key = payloadKey(fileKey, await reader.take(16));
  for (let counter = 0; ; counter++) {
    const chunk = await reader.takeUpTo(CHUNK_BYTES + TAG_BYTES);
    const isLast = await reader.isAtEnd();
    const isEmpty = chunk.length === TAG_BYTES;
    if (chunk.length < TAG_BYTES || (isEmpty && counter > 0)) throw malformed('an incomplete chunk');
    yield open(key, nonceOf(counter, isLast), chunk);
    if (isLast) return;
  }
}

async function readHeader(reader: ByteReader): Promise<string> {
  let text = '';
  while (!text.endsWith('\n') || !/\n--- [^\n]*\n$/.test(text)) {
    if (text.length > MAX_HEADER_BYTES) throw malformed('its age header is too long');
    text += (await reader.take(1)).toString('latin1');
  }
  return text;
}

function openHeader(text: string, keys: readonly RecoveryKey[]): Buffer {
  if (!text.startsWith(VERSION_LINE)) throw malformed('no age header');
  let rest = text.slice(VERSION_LINE.length);
  const stanzas: { readonly share: Buffer; readonly body: Buffer }[] = [];
  for (let match = STANZA.exec(rest); match !== null; match = STANZA.exec(rest)) {
    stanzas.push({ share: bytesFrom(match[1]), body: bytesFrom(match[2]) });
    rest = rest.slice(match[0].length);
  }
  const mac = MAC.exec(rest);
  if (mac === null || stanzas.length === 0) throw malformed('an unknown part in its age header');
  for (const { recipient, secret } of keys)
    for (const stanza of stanzas) {
      const fileKey = unwrap(stanza, secret.reveal(), parseRecipient(recipient));
      if (fileKey === undefined) continue;
      const head = text.slice(0, text.length - (mac[0].length - 3));
      if (!timingSafeEqual(macOf(fileKey, head), bytesFrom(mac[1])))
        throw malformed('its age header was changed');
      return fileKey;
    }
  throw new BackupError(
    'backup-no-recovery-key',
    `decrypting a backup: ${keys.length} recovery keys tried, the backup has ${stanzas.length} recipients`,
  );
}

function wrap(fileKey: Uint8Array, recipient: Uint8Array): string {
  const { privateKey, publicKey } = generateKeyPairSync('x25519');
  const share = rawX25519(publicKey);
  const secret = diffieHellman({ privateKey, publicKey: x25519PublicKey(recipient) });
  const body = seal(wrapKey(secret, share, recipient), Buffer.alloc(NONCE_BYTES), fileKey);
  return `-> X25519 ${base64(share)}\n${base64(body)}\n`;
}

function unwrap(
  { share, body }: { readonly share: Uint8Array; readonly body: Uint8Array },
  secretKey: Uint8Array,
  recipient: Uint8Array,
): Buffer | undefined {
  try {
    const publicKey = x25519PublicKey(share);
    const secret = diffieHellman({ privateKey: x25519PrivateKey(secretKey), publicKey });
    return open(wrapKey(secret, share, recipient), Buffer.alloc(NONCE_BYTES), body);
  } catch {
    return undefined; // the file key is encrypted for another recipient
  }
}

function wrapKey(secret: Uint8Array, share: Uint8Array, recipient: Uint8Array): Uint8Array {
  return hkdf(secret, Buffer.concat([share, recipient]), X25519_INFO);
}

function payloadKey(fileKey: Uint8Array, nonce: Uint8Array): Uint8Array {
  return hkdf(fileKey, nonce, 'payload');
}

function macOf(fileKey: Uint8Array, head: string): Buffer {
  return createHmac('sha256', hkdf(fileKey, Buffer.alloc(0), 'header'))
    .update(head, 'latin1')
    .digest();
}

function hkdf(key: Uint8Array, salt: Uint8Array, info: string): Uint8Array {
  return new Uint8Array(hkdfSync('sha256', key, salt, info, 32));
}

/** An 11-byte counter, then 1 for the last chunk. */
function nonceOf(counter: number, isLast: boolean): Buffer {
  const nonce = Buffer.alloc(NONCE_BYTES);
  nonce.writeUIntBE(counter, 5, 6);
  nonce[11] = isLast ? 1 : 0;
  return nonce;
}

function seal(key: Uint8Array, nonce: Uint8Array, plain: Uint8Array): Buffer {
  const cipher = createCipheriv('chacha20-poly1305', key, nonce, { authTagLength: TAG_BYTES });
  return Buffer.concat([cipher.update(plain), cipher.final(), cipher.getAuthTag()]);
}

function open(key: Uint8Array, nonce: Uint8Array, sealed: Uint8Array): Buffer {
  const decipher = createDecipheriv('chacha20-poly1305', key, nonce, { authTagLength: TAG_BYTES });
  decipher.setAuthTag(sealed.subarray(-TAG_BYTES));
  const plain = decipher.update(sealed.subarray(0, -TAG_BYTES));
  try {
    return Buffer.concat([plain, decipher.final()]);
  } catch (cause) {
    throw malformed('a chunk was changed', cause);
  }
}

function base64(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('base64').replaceAll('=', '');
}

function bytesFrom(text: string | undefined): Buffer {
  const bytes = Buffer.from(text ?? '', 'base64');
  if (base64(bytes) !== text) throw malformed('an age header that is not canonical');
  return bytes;
}

function malformed(why: string, cause?: unknown): BackupError {
  return new BackupError('backup-malformed', `decrypting a backup: ${why}`, { cause });
}
