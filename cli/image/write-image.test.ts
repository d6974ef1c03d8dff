import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { SystemClock } from '../../internal/clock/index.ts';
import { DiskFiles } from '../../internal/file/index.ts';
import type { CommandContext } from '../app/command.ts';
import { RecordingHost } from '../host/fake-host.ts';
import { noPassphrases } from '../workspace/fake-passphrases.ts';
import { writeImage, type ImageOutput } from './write-image.ts';

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'cluster-image-'));
  mkdirSync(join(directory, 'work'));
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

describe('writeImage()', () => {
  const content = { sizeBytes: 4096, extents: [{ offset: 512, bytes: Buffer.from('text') }] };
  const registers = new Map([[4, Buffer.alloc(32, 4)]]);
  const outputOf = (...formats: readonly ('raw' | 'netboot')[]): ImageOutput => ({
    ...{ uki: Buffer.from('program'), bom: '{}\n', out: directory, work: join(directory, 'work') },
    images: formats.map((format) => ({ format, content, registers })),
  });
  /** The same files of another image, with other registers. */
  const otherOf = (output: ImageOutput): ImageOutput => ({
    ...{ ...output, uki: Buffer.from('other'), bom: '[]\n' },
    images: output.images.map(({ format }) => ({
      format,
      content: { sizeBytes: 4096, extents: [{ offset: 512, bytes: Buffer.from('next') }] },
      registers: new Map([[4, Buffer.alloc(32, 5)]]),
    })),
  });
  const files = (): readonly string[] => readdirSync(directory).filter((name) => name !== 'work');
  const contents = (): ReadonlyMap<string, string> =>
    new Map(files().map((name) => [name, readFileSync(join(directory, name), 'latin1')]));

  test('writes files of their whole size that everybody can read, with the reference values of each', async () => {
    await writeImage(contextOf(), outputOf('raw', 'netboot'));
    const disk = readFileSync(join(directory, 'disk.raw'));
    expect([disk.length, disk.toString('ascii', 512, 516)]).toEqual([4096, 'text']);
    expect(statSync(join(directory, 'disk.raw')).mode & 0o777).toBe(0o644);
    for (const name of ['reference-values.json', 'reference-values-netboot.json'])
      expect(JSON.parse(readFileSync(join(directory, name), 'utf8'))).toEqual({
        registers: { pcr4: { expected: '04'.repeat(32) } },
      });
  });

  test('deletes the files of formats that this build does not have, and no other files', async () => {
    await writeImage(contextOf(), outputOf('raw', 'netboot'));
    writeFileSync(join(directory, 'notes.txt'), '');
    await writeImage(contextOf(), outputOf('raw'));
    expect(files()).toEqual(['boot.efi', 'disk.raw', 'notes.txt', 'reference-values.json', 'sbom.cdx.json']);
  });

  test('leaves the image before as it was, if it fails while it writes', async () => {
    const output = outputOf('raw', 'netboot');
    await writeImage(contextOf(), output);
    const before = contents();
    mkdirSync(join(output.work, 'netboot.efi'));
    await expect(writeImage(contextOf(), otherOf(output))).rejects.toThrow('netboot.efi');
    expect(contents()).toEqual(before);
  });

  test.each(['netboot.efi', 'boot.efi', 'sbom.cdx.json'])(
    'leaves no reference values, if it fails before all other files are in place: %s',
    async (name) => {
      const output = outputOf('raw', 'netboot');
      await writeImage(contextOf(), output);
      rmSync(join(directory, name));
      mkdirSync(join(directory, name));
      await expect(writeImage(contextOf(), otherOf(output))).rejects.toThrow(name);
      expect(files().filter((each) => each.startsWith('reference-values'))).toEqual([]);
    },
  );
});

function contextOf(): CommandContext {
  return {
    host: new RecordingHost(),
    ports: {
      files: new DiskFiles(),
      commands: { run: () => Promise.reject(new Error('no command')) },
      clock: new SystemClock(),
    },
    paths: { cache: directory, data: directory, config: directory, workspace: directory },
    passphrases: noPassphrases,
    env: {},
    signal: new AbortController().signal,
  };
}
