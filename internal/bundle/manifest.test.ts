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
  test('reads what encodeManifest() wrote', () => {
    expect(parseManifest(encodeManifest(MANIFEST))).toEqual(MANIFEST);
  });

  const hostile: readonly { name: string; given: unknown }[] = [
    { name: 'nothing', given: undefined },
    { name: 'null', given: null },
    { name: 'an array', given: [MANIFEST] },
    { name: 'another version', given: { ...MANIFEST, version: 2 } },
    { name: 'a field more', given: { ...MANIFEST, extra: true } },
    { name: 'no components', given: { ...MANIFEST, components: [] } },
    { name: 'a name that is not of its version', given: { ...MANIFEST, kubernetesVersion: 'v1.34.4' } },
    { name: 'a version that is a path', given: { ...MANIFEST, kubernetesVersion: '../v1.35.4' } },
    { name: 'an unknown architecture', given: { ...MANIFEST, architecture: 'riscv64' } },
    { name: 'components out of order', given: { ...MANIFEST, components: [PAUSE, KUBELET] } },
    { name: 'a component twice', given: { ...MANIFEST, components: [KUBELET, KUBELET] } },
    {
      name: 'two images with one reference',
      given: { ...MANIFEST, components: [PAUSE, { ...PAUSE, name: 'pause-too' }] },
    },
    ...(
      [
        ['a component name that is a path', { name: '../../etc/passwd' }],
        ['a component name that is an option', { name: '-rf' }],
        ['a component name with a line break', { name: 'kubelet\n' }],
        ['a short hash', { sha256: 'a'.repeat(63) }],
        ['a hash in upper case', { sha256: 'A'.repeat(64) }],
        ['a hash with a line break behind it', { sha256: `${'a'.repeat(64)}\n` }],
        ['no bytes', { sizeBytes: 0 }],
        ['negative bytes', { sizeBytes: -1 }],
        ['half a byte', { sizeBytes: 1.5 }],
        ['too many bytes', { sizeBytes: 2 ** 40 }],
        ['bytes as text', { sizeBytes: '82624674' }],
        ['a source that draws on the terminal', { source: '\u001b[2J' }],
        ['an unknown kind', { kind: 'script' }],
        ['an unknown scope', { scope: 'everyone' }],
        ['no scope', { scope: undefined }],
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
        ['a reference with a blank', ['registry.k8s.io/pa use:1']],
      ] as const
    ).map(([name, references]) => ({
      name,
      given: { ...MANIFEST, components: [{ ...PAUSE, references }] },
    })),
  ];
  test.each(hostile)('refuses $name', ({ given }) => {
    expect(() => parseManifest(bytesOf(`${JSON.stringify(given, undefined, 2)}\n`))).toThrow(
      expect.objectContaining({ code: 'bundle-manifest-invalid' }),
    );
  });

  const good = new TextDecoder().decode(encodeManifest(MANIFEST));
  const broken: readonly { name: string; given: Uint8Array }[] = [
    { name: 'an empty file', given: new Uint8Array() },
    { name: 'a cut file', given: encodeManifest(MANIFEST).subarray(0, 200) },
    { name: 'bytes behind the end', given: bytesOf(`${good} `) },
    { name: 'another spacing', given: bytesOf(JSON.stringify(MANIFEST)) },
    { name: 'a key twice', given: bytesOf(good.replace('"version": 1,', '"version": 1,\n  "version": 1,')) },
    { name: 'a byte order mark', given: bytesOf(`\ufeff${good}`) },
    { name: 'bytes that are not UTF-8', given: Uint8Array.of(0x22, 0xff, 0x22) },
    { name: 'deep nesting', given: bytesOf('['.repeat(100_000)) },
    { name: 'a file too large to be one', given: new Uint8Array(MAX_MANIFEST_BYTES + 1).fill(0x20) },
  ];
  test.each(broken)('refuses $name', ({ given }) => {
    expect(() => parseManifest(given)).toThrow(expect.objectContaining({ code: 'bundle-manifest-invalid' }));
  });
});

describe('encodeManifest()', () => {
  test('gives the same bytes whatever the order of components and fields', () => {
    const { scope, name, ...rest } = KUBELET;
    const shuffled = { ...MANIFEST, components: [PAUSE, { scope, ...rest, name }] };
    expect(encodeManifest(shuffled)).toEqual(encodeManifest(MANIFEST));
  });
});

function bytesOf(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}
