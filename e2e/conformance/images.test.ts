import { describe, expect, test } from '@jest/globals';
import { parseImageList } from './image-list.ts';
import { agnhostFiles, busyboxLinks, mergeUsr, testImages } from './image-recipes.ts';

/**
 * As in test/utils/image/manifest.go: the fields of RegistryList begin with a capital letter, in the list itself and
 * where they are used.
 */
const MANIFEST = `	initRegistry = RegistryList{
		PromoterE2eRegistry:      "registry.k8s.io/e2e-test-images",
		GcRegistry:               "registry.k8s.io",
	}
	configs := map[ImageID]Config{}
	configs[Agnhost] = Config{list.PromoterE2eRegistry, "agnhost", "2.66.1"}
	configs[Pause] = Config{list.GcRegistry, "pause", "3.10.2"}
	configs[VolumeNFSServer] = Config{list.PromoterE2eRegistry, "volume/nfs", "1.6.0"}
`;

describe('parseImageList()', () => {
  test('returns the reference of every image', () => {
    expect([...parseImageList(MANIFEST)]).toEqual([
      ['Agnhost', 'registry.k8s.io/e2e-test-images/agnhost:2.66.1'],
      ['Pause', 'registry.k8s.io/pause:3.10.2'],
      ['VolumeNFSServer', 'registry.k8s.io/e2e-test-images/volume/nfs:1.6.0'],
    ]);
  });

  test.each([
    { name: 'a list without images', text: '' },
    { name: 'an unknown registry', text: MANIFEST.replaceAll('list.GcRegistry', 'list.OtherRegistry') },
  ])('refuses $name', ({ text }) => {
    expect(() => parseImageList(text)).toThrow(TypeError);
  });
});

test('testImages() takes the images that have a recipe, with the references of the release', () => {
  const images = testImages(parseImageList(MANIFEST));
  expect([...images.keys()]).toEqual(['registry.k8s.io/e2e-test-images/agnhost:2.66.1']);
  expect([...images.values()][0]).toMatchObject({ entrypoint: '/agnhost', command: ['pause'] });
});

test('no image that a test runs commands in has the shell of busybox, which starts its own programs instead of those of the image', () => {
  const list = new Map(['Agnhost', 'BusyBox', 'Kitten', 'JessieDnsutils'].map((id) => [id, id]));
  const images = [...testImages(list).values()];
  expect(images).toHaveLength(list.size);
  for (const { layers } of images) {
    const link = layers.findIndex((layer) => layer === 'shell-link' || layer === 'local-shell-link');
    expect(link).toBeGreaterThan(layers.indexOf('busybox'));
    expect(layers.some((layer) => layer === 'shell' || layer === 'tools')).toBe(true);
  }
});

test('agnhostFiles() has the user whom a test of supplemental groups expects', () => {
  const files = agnhostFiles({ certificate: new Uint8Array(), key: new Uint8Array() });
  const group = files.find(({ path }) => path === 'etc/group');
  const text = group?.type === 'file' ? Buffer.concat([...(group.content() as Iterable<Uint8Array>)]) : '';
  expect(text.toString()).toContain('group-defined-in-image:x:50000:user-defined-in-image\n');
});

test('mergeUsr() moves files of both layouts of Debian to the same path, and drops the links', () => {
  expect(
    mergeUsr([
      { type: 'directory', path: 'bin', mode: 0o755 },
      { type: 'symlink', path: 'lib64', target: 'usr/lib64' },
      { type: 'symlink', path: 'bin/sh', target: 'dash' },
      { type: 'symlink', path: 'usr/bin/awk', target: 'mawk' },
      { type: 'symlink', path: 'binary', target: 'x' },
    ]).map(({ path }) => path),
  ).toEqual(['usr/bin/sh', 'usr/bin/awk', 'binary']);
});

test('busyboxLinks() links each program to busybox, and busybox not to itself', () => {
  expect(busyboxLinks('[\nbusybox\nsh\n')).toEqual([
    { type: 'symlink', path: 'usr/bin/[', target: 'busybox' },
    { type: 'symlink', path: 'usr/bin/sh', target: 'busybox' },
  ]);
});
