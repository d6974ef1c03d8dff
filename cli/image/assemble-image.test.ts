import { describe, expect, test } from '@jest/globals';
import { fakeStub } from '../../internal/image/fake-stub.ts';
import { assembleImage, type ImageFormat } from './assemble-image.ts';

const parts = {
  loader: fakeStub(3),
  stub: fakeStub(2),
  kernel: fakeStub(1),
  initrd: Buffer.from('initrd'),
  commandLine: 'quiet',
  osRelease: 'ID=cluster\n',
};
const settings = {
  formats: ['raw', 'qcow2', 'iso', 'netboot'] as const,
  provisioning: Buffer.from('{"version": 1}'),
  stateBytes: 64 * 2 ** 20,
  firmware: new Map(),
};

describe('assembleImage()', () => {
  const { uki, images } = assembleImage(parts, settings);
  const imageOf = (format: ImageFormat) => {
    const found = images.find((each) => each.format === format);
    if (found === undefined) throw new Error(`${format} is missing`);
    return found;
  };
  const different = (one: ImageFormat, other: ImageFormat): readonly number[] =>
    [...imageOf(one).registers].flatMap(([pcr, value]) =>
      Buffer.from(value).equals(imageOf(other).registers.get(pcr) ?? new Uint8Array()) ? [] : [pcr],
    );

  test('makes the formats that are asked for', () => {
    expect(images.map(({ format }) => format)).toEqual(settings.formats);
    expect(assembleImage(parts, { ...settings, formats: ['iso'] }).images).toEqual([imageOf('iso')]);
  });

  test('gives both formats of the disk the same registers, and a CD those without boot loader and partition table', () => {
    expect(different('raw', 'qcow2')).toEqual([]);
    expect(different('raw', 'iso')).toEqual([4, 5, 12]);
  });

  test('puts the provisioning file into the program for the network, where other registers measure it', () => {
    const [program] = imageOf('netboot').content.extents;
    expect(Buffer.from(program?.bytes ?? []).includes(settings.provisioning)).toBe(true);
    expect(Buffer.from(uki).includes(settings.provisioning)).toBe(false);
    // The kernel sees the same initrd. Nothing is read from a boot partition.
    expect(different('netboot', 'iso')).toEqual([4, 11, 12]);
    const changed = assembleImage(parts, { ...settings, provisioning: Buffer.from('{"version":  1}') });
    const [before, after] = [images, changed.images].map((all) => all[3]?.registers);
    expect([4, 9, 11, 12].filter((pcr) => !equal(before?.get(pcr), after?.get(pcr)))).toEqual([4, 9, 11]);
  });
});

function equal(one: Uint8Array | undefined, other: Uint8Array | undefined): boolean {
  return one !== undefined && other !== undefined && Buffer.from(one).equals(other);
}
