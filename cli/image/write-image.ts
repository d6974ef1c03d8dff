import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { DiskStreams } from '../../internal/file/index.ts';
import type { SparseFile } from '../../internal/image/index.ts';
import type { CommandContext } from '../app/command.ts';
import { formatBytes } from '../host/index.ts';
import { FORMAT_FILES, type FormattedImage } from './assemble-image.ts';

const PUBLIC = 0o644;

/** The files of a built image. */
export interface ImageOutput {
  readonly uki: Uint8Array;
  readonly images: readonly FormattedImage[];
  /** The software bill of materials. */
  readonly bom: string;
  /** The directory that gets them. */
  readonly out: string;
  /** A directory for files before they get their names. It is on the file system of `out`, because a rename cannot leave one. */
  readonly work: string;
}

/**
 * Writes the files of an image: first all of them into `work`. Then the reference values of the image before are deleted, and those of
 * this one get their names last. A failure therefore never leaves reference values of one image beside files of another. Files of formats
 * that this build does not have are deleted.
 */
export async function writeImage(context: CommandContext, output: ImageOutput): Promise<void> {
  const { files } = context.ports;
  const { uki, images, bom, out, work } = output;
  const values = new Map<string, string>();
  for (const { format, content, registers } of images) {
    const { file, referenceValues } = FORMAT_FILES[format];
    await writeSparse(context, join(work, file), content);
    const text = `${JSON.stringify({ registers: registersByName(registers) }, undefined, 2)}\n`;
    values.set(referenceValues, text);
  }
  const others = new Map<string, Uint8Array | string>([['boot.efi', uki], ['sbom.cdx.json', bom], ...values]);
  for (const [name, content] of others) await files.writeAtomic(join(work, name), content, { mode: PUBLIC });

  const written = images.map(({ format }) => FORMAT_FILES[format].file);
  for (const { file, referenceValues } of Object.values(FORMAT_FILES)) {
    await files.remove(join(out, referenceValues));
    if (!written.includes(file)) await files.remove(join(out, file));
  }
  for (const name of [...written, ...others.keys()])
    await new DiskStreams().publish(join(work, name), join(out, name), PUBLIC);
}

/** Prints which files were written. */
export function reportImage({ host }: CommandContext, { uki, images, out }: ImageOutput): void {
  const bootSha256 = createHash('sha256').update(uki).digest('hex');
  const described = images.map(({ format, content, registers }) => ({
    ...{ format, ...FORMAT_FILES[format], sizeBytes: content.sizeBytes },
    registers: registersByName(registers),
  }));
  const values = new Map(
    images.map(({ format, registers }) => [FORMAT_FILES[format].referenceValues, [...registers.keys()]]),
  );
  host.result({ directory: out, bootSha256, images: described }, () =>
    [
      `Wrote ${out}:`,
      ...described.map(({ file, sizeBytes }) => row(file, formatBytes(sizeBytes))),
      row('boot.efi', `${formatBytes(uki.length)}, sha256 ${bootSha256}`),
      ...[...values].map(([name, pcrs]) => row(name, `registers ${pcrs.join(', ')}`)),
      row('sbom.cdx.json', 'the software in it'),
    ].join('\n'),
  );
}

function row(name: string, what: string): string {
  return `  ${name.padEnd(29)}  ${what}`;
}

/** Writes only what is not zero: the file is sparse. */
export async function writeSparse(
  context: Pick<CommandContext, 'signal'>,
  path: string,
  file: SparseFile,
): Promise<void> {
  const streams = new DiskStreams();
  // The file gets its whole size first.
  await streams.writeAt(path, file.sizeBytes - 1, new Uint8Array(1));
  for (const { offset, bytes } of file.extents) {
    context.signal.throwIfAborted();
    await streams.writeAt(path, offset, bytes);
  }
}

/** In the form of `registers` in an attestation policy. */
function registersByName(
  registers: ReadonlyMap<number, Uint8Array>,
): Readonly<Record<string, { readonly expected: string }>> {
  return Object.fromEntries(
    [...registers].map(([pcr, value]) => [`pcr${pcr}`, { expected: Buffer.from(value).toString('hex') }]),
  );
}
