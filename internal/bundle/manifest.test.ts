import { describe, expect, test } from '@jest/globals';
import type { BundleManifest, Component } from './component.ts';
import { encodeManifest, MAX_MANIFEST_BYTES, parseManifest } from './manifest.ts';

const KUBELET: Component = {
  name: 'kubelet',
  version: 'v1.35.4',
  kind: 'binary',
  sha256: 'a'.repeat(64),
  sizeBytes: 82_624_674,
  source: 'k8s.io/kubernetes@v1.35.4',
  scope: 'node',
};
const PAUSE: Component = {
  ...KUBELET,
  name: 'pause',
  version: '3.10.1',
  kind: 'image',
  sha256: 'b'.repeat(64),
  references: ['registry.k8s.io/pause:3.10.1'],
};
const MANIFEST: BundleManifest = {
  version: 1,
  name: 'kubernetes-v1.35.4-linux-amd64',
  kubernetesVersion: 'v1.35.4',
  architecture: 'amd64',
  components: [KUBELET, PAUSE],
};

describe('parseManifest()', () => {
  test('parseManifest() reads the output of encodeManifest()', () => {
    expect(parseManifest(encodeManifest(MANIFEST))).toEqual(MANIFEST);
  });

  const hostile: readonly { name: string; given: unknown }[] = [
    { name: 'undefined instead of a manifest', given: undefined },
    { name: 'null', given: null },
    { name: 'an array', given: [MANIFEST] },
    { name: 'another format version', given: { ...MANIFEST, version: 2 } },
    { name: 'an additional field', given: { ...MANIFEST, extra: true } },
    { name: 'a manifest without components', given: { ...MANIFEST, components: [] } },
    {
      name: 'a bundle name that does not match its version',
      given: { ...MANIFEST, kubernetesVersion: 'v1.34.4' },
    },
    { name: 'a version that is a path', given: { ...MANIFEST, kubernetesVersion: '../v1.35.4' } },
    { name: 'an unknown architecture', given: { ...MANIFEST, architecture: 'riscv64' } },
    { name: 'components out of order', given: { ...MANIFEST, components: [PAUSE, KUBELET] } },
    { name: 'a repeated component', given: { ...MANIFEST, components: [KUBELET, KUBELET] } },
    {
      name: 'two images with one reference',
      given: { ...MANIFEST, components: [PAUSE, { ...PAUSE, name: 'pause-too' }] },
    },
    ...(
      [
        ['a component name that is a path', { name: '../../etc/passwd' }],
        ['a component name that starts with a dash, like a command-line option', { name: '-rf' }],
        ['a component name with a line break', { name: 'kubelet\n' }],
        ['a short hash', { sha256: 'a'.repeat(63) }],
        ['a hash in upper case', { sha256: 'A'.repeat(64) }],
        ['a hash that is followed by a line break', { sha256: `${'a'.repeat(64)}\n` }],
        ['a size of zero bytes', { sizeBytes: 0 }],
        ['a negative size in bytes', { sizeBytes: -1 }],
        ['a size that is no integer', { sizeBytes: 1.5 }],
        ['a size above the maximum', { sizeBytes: 2 ** 40 }],
        ['a size that is a string', { sizeBytes: '82624674' }],
        ['a source with terminal control characters', { source: '\u001b[2J' }],
        ['an unknown kind', { kind: 'script' }],
        ['an unknown scope', { scope: 'everyone' }],
        ['a component without a scope', { scope: undefined }],
        ['references on a binary', { references: ['registry.k8s.io/pause:3.10.1'] }],
        ['an unknown field', { mode: 0o4755 }],
      ] as const
    ).map(([name, change]) => ({
      name,
      given: { ...MANIFEST, components: [{ ...KUBELET, ...change }] },
    })),
    ...(
      [
        ['an image without references', undefined],
        ['an image with an empty list of references', []],
        ['a reference without a tag', ['registry.k8s.io/pause']],
        ['a reference with a space', ['registry.k8s.io/pa use:1']],
      ] as const
    ).map(([name, references]) => ({
      name,
      given: { ...MANIFEST, components: [{ ...PAUSE, references }] },
    })),
  ];
  test.each(hostile)('parseManifest() refuses $name', ({ given }) => {
    expect(() => parseManifest(bytesOf(`${JSON.stringify(given, undefined, 2)}\n`))).toThrow(
      expect.objectContaining({ code: 'bundle-manifest-invalid' }),
    );
  });

  const good = new TextDecoder().decode(encodeManifest(MANIFEST));
  const broken: readonly { name: string; given: Uint8Array }[] = [
    { name: 'an empty file', given: new Uint8Array() },
    { name: 'a manifest that is cut off', given: encodeManifest(MANIFEST).subarray(0, 200) },
    { name: 'bytes after the end of the manifest', given: bytesOf(`${good} `) },
    { name: 'a manifest with other whitespace', given: bytesOf(JSON.stringify(MANIFEST)) },
    {
      name: 'a manifest with a repeated key',
      given: bytesOf(good.replace('"version": 1,', '"version": 1,\n  "version": 1,')),
    },
    { name: 'a manifest with a byte order mark', given: bytesOf(`\ufeff${good}`) },
    { name: 'bytes that are not UTF-8', given: Uint8Array.of(0x22, 0xff, 0x22) },
    { name: 'deeply nested JSON', given: bytesOf('['.repeat(100_000)) },
    {
      name: 'a file that is larger than the maximum',
      given: new Uint8Array(MAX_MANIFEST_BYTES + 1).fill(0x20),
    },
  ];
  test.each(broken)('parseManifest() refuses $name', ({ given }) => {
    expect(() => parseManifest(given)).toThrow(expect.objectContaining({ code: 'bundle-manifest-invalid' }));
  });
});

describe('encodeManifest()', () => {
  test('encodeManifest() returns the same bytes whatever the order of components and fields', () => {
    const { scope, name, ...rest } = KUBELET;
    const shuffled = { ...MANIFEST, components: [PAUSE, { scope, ...rest, name }] };
    expect(encodeManifest(shuffled)).toEqual(encodeManifest(MANIFEST));
  });
});

function bytesOf(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}
