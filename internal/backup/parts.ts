import { createHash } from 'node:crypto';
import { u32, u64 } from '../crypto/index.ts';
import { ByteReader } from './byte-reader.ts';
import { BackupError } from './errors.ts';
import { frames, readFrames } from './frames.ts';

/**
 * The parts of a backup, each exactly once and in this order. `workspace` is missing in files of format 1, and if the
 * caller had no workspace of the cluster. `objects` is missing in files of formats 1 to 3. `objects` and `facts`
 * come last, because the node that takes the backup collects them after both snapshots.
 */
export const PART_NAMES = [
  'workspace',
  'configuration',
  'bundle',
  'shared-keys',
  'state-etcd',
  'kubernetes-etcd',
  'objects',
  'facts',
] as const;
/** One of `PART_NAMES`. */
export type PartName = (typeof PART_NAMES)[number];
const OPTIONAL: ReadonlySet<PartName> = new Set(['workspace', 'objects']);

const HASH_BYTES = 32;
const MAX_NAME_BYTES = 64;

/** A part to write. `content` is read when the parts before it are written. */
export interface BackupPart {
  readonly name: PartName;
  readonly content: AsyncIterable<Uint8Array>;
}

/** A piece of a part that is read. Each part has at least one piece, which may be empty. */
export interface PartPiece {
  readonly name: PartName;
  readonly data: Uint8Array;
}

/** Encodes each part as name, frames, length and SHA-256. */
export async function* encodeParts(parts: readonly BackupPart[]): AsyncGenerator<Uint8Array> {
  for (const { name, content } of parts) {
    yield Buffer.concat([u32(name.length), Buffer.from(name, 'latin1')]);
    const hash = createHash('sha256');
    let sizeBytes = 0n;
    yield* frames(content, (data) => {
      hash.update(data);
      sizeBytes += BigInt(data.length);
    });
    yield Buffer.concat([u64(sizeBytes), hash.digest()]);
  }
  yield u32(0);
}

/** Parses decrypted parts. A piece is yielded before the hash of its part is checked. @throws BackupError `backup-content-invalid` */
export async function* decodeParts(plain: AsyncIterable<Uint8Array>): AsyncGenerator<PartPiece> {
  const reader = new ByteReader(plain, (missing) => invalid(`${missing} bytes missing`));
  let found = await takeName(reader);
  for (const name of PART_NAMES) {
    if (OPTIONAL.has(name) && found !== name) continue;
    if (found !== name) throw invalid(`part ${name} expected`);
    yield { name, data: new Uint8Array() };
    const hash = createHash('sha256');
    let sizeBytes = 0n;
    for await (const data of readFrames(reader, invalid)) {
      hash.update(data);
      sizeBytes += BigInt(data.length);
      yield { name, data };
    }
    const end = Buffer.concat([u64(sizeBytes), hash.digest()]);
    if (!end.equals(await reader.take(8 + HASH_BYTES)))
      throw invalid(`the hash of part ${name} differs from its recorded hash`);
    found = await takeName(reader);
  }
  if (found !== '' || !(await reader.isAtEnd())) throw invalid('data after the last part');
}

/** The name of the next part; empty after the last one. */
async function takeName(reader: ByteReader): Promise<string> {
  const length = await reader.takeU32();
  if (length > MAX_NAME_BYTES) throw invalid('the name of a part is too long');
  return (await reader.take(length)).toString('latin1');
}

function invalid(why: string): BackupError {
  return new BackupError('backup-content-invalid', `reading the content of a backup: ${why}`);
}
