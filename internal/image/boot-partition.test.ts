import { describe, expect, test } from '@jest/globals';
import { bootPartitionFiles, cdFiles } from './boot-partition.ts';
import { bootEntryRelease } from './image-files.ts';

const [loader, uki, provisioning] = ['loader', 'uki', '{}'].map((text) => Buffer.from(text)) as [
  Buffer,
  Buffer,
  Buffer,
];

describe('bootPartitionFiles()', () => {
  const files = bootPartitionFiles({ loader, uki, provisioning });
  const textOf = (path: string): string =>
    Buffer.from(files.find((each) => each.path === path)?.content ?? []).toString();

  test('has systemd-boot, and one image whose tries are not counted', () => {
    expect(files.map(({ path }) => path)).toEqual([
      'EFI/BOOT/BOOTX64.EFI',
      'loader/loader.conf',
      'EFI/Linux/cluster-1.efi',
      'loader/credentials/provisioning.cred',
    ]);
    expect([textOf('EFI/BOOT/BOOTX64.EFI'), textOf('EFI/Linux/cluster-1.efi')]).toEqual(['loader', 'uki']);
  });

  test('starts at once, without an editor for the command line', () => {
    expect(textOf('loader/loader.conf').split('\n')).toEqual(
      expect.arrayContaining(['timeout 0', 'editor no']),
    );
  });
});

test('cdFiles() has the image in place of a boot loader', () => {
  expect(cdFiles(uki, provisioning).map(({ content }) => content)).toEqual([uki, provisioning]);
});

test('bootEntryRelease() has no version, so that systemd-boot starts the image with the highest number', () => {
  expect(bootEntryRelease('1.2.3')).not.toMatch(/^(IMAGE_)?VERSION/m);
  expect(bootEntryRelease('1.2.3')).toContain('PRETTY_NAME="cluster 1.2.3"');
});
