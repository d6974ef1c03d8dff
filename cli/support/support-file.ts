import { createHash } from 'node:crypto';
import type { Transform } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGunzip, createGzip } from 'node:zlib';
import { z } from 'zod';
import { BackupError, decryptAge, encryptAge, type RecoveryKey } from '../../internal/backup/index.ts';
import { readTar, tarFileOf, writeTar } from '../../internal/bundlebuild/index.ts';
import { describeShape, findCoded } from '../../internal/errors/index.ts';
import { FileError } from '../../internal/file/index.ts';
import { SupportError } from './errors.ts';

/** Manifest of a support bundle; its last member. */
export const MANIFEST = 'manifest.json';
const VERSION = 1;
const FILE_MODE = 0o600;
const MAX_FILE_BYTES = 32 * 1024 * 1024;
const MAX_TOTAL_BYTES = 1024 * 1024 * 1024;
const MAX_FILES = 20_000;
/** Relative, without "." and "..": an archive of an attacker writes nowhere else. */
const PATH = /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}(?:\/[A-Za-z0-9][A-Za-z0-9._-]{0,127}){0,4}$/;

const text = z.string().max(8_192);
const manifestShape = z.strictObject({
  version: z.literal(VERSION),
  clusterId: text,
  clusterName: text,
  takenMs: z.int(),
  cliVersion: text,
  files: z.array(z.strictObject({ path: text, sizeBytes: z.int().min(0), sha256: text })).max(MAX_FILES),
  /** What could not be collected, and why. */
  missing: z.array(z.strictObject({ path: text, error: text })).max(MAX_FILES),
});

/** What a support bundle contains, and what it lacks. */
export type SupportManifest = z.output<typeof manifestShape>;

/** A file of a support bundle. */
export interface SupportFile {
  readonly path: string;
  readonly content: Uint8Array;
}

/** The part of the manifest that does not depend on the files. */
export type SupportHead = Pick<SupportManifest, 'clusterId' | 'clusterName' | 'takenMs' | 'cliVersion'>;

/**
 * Encodes a support bundle: a gzip-compressed tar archive in an age file, so that `age -d` and `tar` open it too. One file is in memory at
 * a time. `missing` is read after the last file.
 */
export function encodeSupportFile(
  head: SupportHead,
  files: AsyncIterable<SupportFile>,
  {
    missing,
    recipients,
  }: { readonly missing: SupportManifest['missing']; readonly recipients: readonly string[] },
): AsyncIterable<Uint8Array> {
  return encryptAge(through(createGzip(), writeTar(entriesOf(head, files, missing))), recipients);
}

async function* entriesOf(
  head: SupportHead,
  files: AsyncIterable<SupportFile>,
  missing: SupportManifest['missing'],
) {
  const listed: SupportManifest['files'] = [];
  for await (const { path, content } of files) {
    if (!PATH.test(path)) throw new TypeError(`invalid path in a support bundle: ${JSON.stringify(path)}`);
    const kept = content.subarray(0, MAX_FILE_BYTES);
    listed.push({ path, sizeBytes: kept.length, sha256: sha256(kept) });
    yield tarFileOf(path, kept, FILE_MODE);
  }
  const manifest: SupportManifest = { version: VERSION, ...head, files: listed, missing };
  yield tarFileOf(MANIFEST, `${JSON.stringify(manifest, null, 1)}\n`, FILE_MODE);
}

/**
 * Decrypts a support bundle and yields its files. The file may come from anybody: paths, sizes and types are checked before a file is
 * yielded; the manifest is compared with all files at the end and returned.
 * @throws SupportError `support-key-refused`, `support-file-malformed`, `support-file-version`
 */
export async function* decodeSupportFile(
  sealed: AsyncIterable<Uint8Array>,
  keys: readonly RecoveryKey[],
): AsyncGenerator<SupportFile, SupportManifest> {
  const listed: SupportManifest['files'] = [];
  const seen = new Set<string>();
  let manifest: SupportManifest | undefined;
  let totalBytes = 0;
  try {
    for await (const member of readTar(through(createGunzip(), decryptAge(sealed, keys)))) {
      const { path, type, sizeBytes } = member;
      totalBytes += sizeBytes;
      if (type !== 'file' || !PATH.test(path) || seen.has(path) || manifest !== undefined)
        throw malformed(`unexpected member ${JSON.stringify(path).slice(0, 200)}`);
      if (sizeBytes > MAX_FILE_BYTES || totalBytes > MAX_TOTAL_BYTES || seen.size > MAX_FILES)
        throw malformed('too large');
      seen.add(path);
      const content = Buffer.concat(await Array.fromAsync(member.content));
      if (path === MANIFEST) manifest = parseManifest(content);
      else {
        listed.push({ path, sizeBytes: content.length, sha256: sha256(content) });
        yield { path, content };
      }
    }
  } catch (error) {
    throw translated(error);
  }
  if (manifest === undefined) throw malformed('no manifest');
  if (JSON.stringify(manifest.files) !== JSON.stringify(listed))
    throw malformed('its files are not those of its manifest');
  return manifest;
}

/** The output of a stream of node:zlib. An error of the input ends the output. */
async function* through(stream: Transform, chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  const failure = pipeline(chunks, stream).then(
    () => undefined,
    (error: unknown) => (error instanceof Error ? error : new Error('unpacking failed', { cause: error })),
  );
  try {
    yield* stream as AsyncIterable<Uint8Array>;
  } catch (error) {
    throw (await failure) ?? error;
  } finally {
    stream.destroy();
  }
  const error = await failure;
  if (error !== undefined) throw error;
}

function parseManifest(content: Uint8Array): SupportManifest {
  let json: unknown;
  try {
    json = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(content));
  } catch (cause) {
    throw malformed('its manifest is not JSON', cause);
  }
  const { data: head } = z.looseObject({ version: z.int(), cliVersion: text }).safeParse(json);
  if (head !== undefined && head.version !== VERSION)
    throw new SupportError(
      'support-file-version',
      `opening a support bundle: format ${head.version} of version ${JSON.stringify(head.cliVersion)}, this program reads format ${VERSION}`,
    );
  const parsed = manifestShape.safeParse(json);
  if (!parsed.success) throw malformed(describeShape(parsed.error));
  return parsed.data;
}

function translated(error: unknown): unknown {
  const coded = findCoded(error);
  // A file that is missing or cannot be read is not a malformed one.
  if (coded instanceof SupportError || coded instanceof FileError) return coded;
  if (coded instanceof BackupError && coded.code === 'backup-no-recovery-key')
    return new SupportError('support-key-refused', 'opening a support bundle: none of the keys opens it', {
      cause: error,
    });
  return malformed('it cannot be decrypted and unpacked', error);
}

function malformed(why: string, cause?: unknown): SupportError {
  return new SupportError('support-file-malformed', `opening a support bundle: ${why}`, { cause });
}

function sha256(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex');
}
