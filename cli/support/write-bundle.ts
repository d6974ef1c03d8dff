import { createHash } from 'node:crypto';
import { DiskStreams } from '../../internal/file/index.ts';
import { printable } from '../../internal/printable/index.ts';
import type { CommandContext } from '../app/command.ts';
import { formatBytes, formatTable } from '../host/index.ts';
import type { Collecting } from './attempt-file.ts';
import { SupportError } from './errors.ts';
import {
  encodeSupportFile,
  type SupportFile,
  type SupportHead,
  type SupportManifest,
} from './support-file.ts';

const FILE_MODE = 0o600;

/** What is written where, and who can open it. */
export interface WriteOptions {
  /** Path of the new file. */
  readonly to: string;
  readonly recipients: readonly string[];
  /** Starts the collection. The files are collected while they are written. */
  readonly collect: (
    collecting: Pick<Collecting, 'missing' | 'onFile'>,
  ) => Promise<{ readonly head: SupportHead; readonly files: AsyncIterable<SupportFile> }>;
}

/** @throws SupportError `support-file-exists` */
export async function refuseExisting({ ports }: CommandContext, to: string): Promise<void> {
  if ((await ports.files.stat(to)) !== undefined)
    throw new SupportError('support-file-exists', `making support bundle ${to}: the file exists`);
}

/** Collects, encrypts and writes a support bundle, and shows its result. The file gets its name when it is complete. */
export async function writeBundle(
  context: CommandContext,
  { to, recipients, collect }: WriteOptions,
): Promise<void> {
  const { host, ports } = context;
  const missing: SupportManifest['missing'] = [];
  const partial = `${to}.partial`;
  const written = await host.step('support-bundle', 'Collecting', async (progress) => {
    await ports.files.remove(partial);
    const { head, files } = await collect({ missing, onFile: (path) => progress.update(path) });
    return write(encodeSupportFile(head, files, { missing, recipients }), { partial, to });
  });
  const result = { file: to, ...written, recipients, missing };
  host.result(result, () =>
    [
      `File: ${to}, ${formatBytes(written.sizeBytes)}, SHA-256 ${written.sha256}`,
      ...recipients.map((recipient) => `Opened by: ${recipient}`),
      ...(missing.length === 0
        ? []
        : [
            '',
            formatTable(
              ['NOT COLLECTED', 'REASON'],
              missing.map(({ path, error }) => [path, printable(error)]),
            ),
          ]),
      '',
      `Look at it before you send it: cluster support open ${to} --to DIRECTORY`,
    ].join('\n'),
  );
}

async function write(
  chunks: AsyncIterable<Uint8Array>,
  { partial, to }: { readonly partial: string; readonly to: string },
): Promise<{ readonly sizeBytes: number; readonly sha256: string }> {
  const streams = new DiskStreams();
  const hash = createHash('sha256');
  let sizeBytes = 0;
  for await (const chunk of chunks) {
    await streams.writeAt(partial, sizeBytes, chunk);
    hash.update(chunk);
    sizeBytes += chunk.length;
  }
  await streams.publish(partial, to, FILE_MODE);
  return { sizeBytes, sha256: hash.digest('hex') };
}
