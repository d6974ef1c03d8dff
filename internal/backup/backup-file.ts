import { createHash } from 'node:crypto';
import { labeledStatement, signEd25519, u64 } from '../crypto/index.ts';
import type { Secret } from '../secret/index.ts';
import { decryptAge, encryptAge } from './age.ts';
import { ByteReader } from './byte-reader.ts';
import { BackupError } from './errors.ts';
import { frames, readFrames } from './frames.ts';
import {
  encodeHeader,
  isSigned,
  readHeader,
  SIGNATURE_BYTES,
  statementOfHeader,
  verifyHeader,
  type BackupHeader,
  type BackupTrust,
} from './header.ts';
import { decodeParts, encodeParts, type BackupPart, type PartPiece } from './parts.ts';
import type { RecoveryKey } from './recovery-key.ts';

/** Creates a backup as a stream. @param keyPem the Ed25519 key of the node (PKCS#8 PEM), whose public half is in the header */
export async function* writeBackup(
  header: BackupHeader,
  parts: readonly BackupPart[],
  keyPem: Secret<string>,
): AsyncGenerator<Uint8Array> {
  const head = encodeHeader(header);
  yield head;
  yield signEd25519(keyPem, statementOfHeader(head));
  const hash = createHash('sha256');
  let sizeBytes = 0;
  yield* frames(encryptAge(encodeParts(parts), header.certificate.recipients), (data) => {
    hash.update(data);
    sizeBytes += data.length;
  });
  yield signEd25519(keyPem, statementOfBody(head, { sizeBytes, sha256: hash.digest() }));
}

/**
 * Reads the header of a backup and verifies that the node named in the header signed the header. @throws BackupError
 */
export async function readBackupHeader(file: AsyncIterable<Uint8Array>): Promise<BackupHeader> {
  const reader = readerOf(file);
  try {
    return (await readHeader(reader)).header;
  } finally {
    await reader.close();
  }
}

/**
 * Reads a whole backup and verifies its certificate and signatures, without a recovery key. Call this before anything is done with
 * the content. Returns the header and SHA-256 (hex) of the file.
 * @throws BackupError
 */
export async function verifyBackup(
  file: AsyncIterable<Uint8Array>,
  trust: BackupTrust,
): Promise<{ readonly header: BackupHeader; readonly sha256: string; readonly sizeBytes: number }> {
  const whole = createHash('sha256');
  let fileBytes = 0;
  const reader = readerOf(
    tap(file, (chunk) => {
      whole.update(chunk);
      fileBytes += chunk.length;
    }),
  );
  try {
    const { header, bytes } = await readHeader(reader);
    verifyHeader(header, trust);
    const hash = createHash('sha256');
    let sizeBytes = 0;
    for await (const data of readFrames(reader, malformed)) {
      hash.update(data);
      sizeBytes += data.length;
    }
    const statement = statementOfBody(bytes, { sizeBytes, sha256: hash.digest() });
    if (!isSigned(header, statement, await reader.take(SIGNATURE_BYTES)))
      throw new BackupError('backup-signature-invalid', 'reading a backup: its content was changed');
    if (!(await reader.isAtEnd())) throw malformed('bytes after its end');
    return { header, sha256: whole.digest('hex'), sizeBytes: fileBytes };
  } finally {
    await reader.close();
  }
}

/** Decrypts the parts of a backup that `verifyBackup()` has accepted. @throws BackupError */
export async function* readBackupParts(
  file: AsyncIterable<Uint8Array>,
  keys: readonly RecoveryKey[],
): AsyncGenerator<PartPiece> {
  const reader = readerOf(file);
  try {
    await readHeader(reader);
    yield* decodeParts(decryptAge(readFrames(reader, malformed), keys));
  } finally {
    await reader.close();
  }
}

function readerOf(file: AsyncIterable<Uint8Array>): ByteReader {
  return new ByteReader(
    file,
    (missing) => new BackupError('backup-truncated', `reading a backup: ${missing} bytes missing`),
  );
}

async function* tap(
  chunks: AsyncIterable<Uint8Array>,
  onChunk: (chunk: Uint8Array) => void,
): AsyncGenerator<Uint8Array> {
  for await (const chunk of chunks) {
    onChunk(chunk);
    yield chunk;
  }
}

function statementOfBody(
  head: Uint8Array,
  body: { readonly sizeBytes: number; readonly sha256: Uint8Array },
): Uint8Array {
  const headSha256 = createHash('sha256').update(head).digest();
  return labeledStatement('cluster/backup/body/v1\0', headSha256, u64(BigInt(body.sizeBytes)), body.sha256);
}

function malformed(why: string): BackupError {
  return new BackupError('backup-malformed', `reading a backup: ${why}`);
}
