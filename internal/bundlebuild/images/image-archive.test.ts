import { expect, test } from '@jest/globals';
import { createHash } from 'node:crypto';
import { zstdDecompressSync } from 'node:zlib';
import { accountsLayer, CAP_NET_BIND_SERVICE, writeImageArchive, type Image } from './image-archive.ts';
import { retagDockerArchive } from './retag-image.ts';
import { readTar } from '../archive/tar-reader.ts';
import { tarFileOf, writeTar, type TarEntry } from '../archive/tar-writer.ts';

const COREDNS: TarEntry = {
  ...tarFileOf('coredns', 'server', 0o755),
  xattrs: { 'security.capability': CAP_NET_BIND_SERVICE },
};
const IMAGE: Image = {
  reference: 'registry.k8s.io/coredns/coredns:v1.13.1',
  architecture: 'amd64',
  layers: [accountsLayer(), [COREDNS]],
  entrypoint: '/coredns',
  user: '65532:65532',
};

const ZSTD = 'application/vnd.oci.image.layer.v1.tar+zstd';
const DOCKER_MANIFEST = [{ Config: 'config.json', RepoTags: ['x:1'], Layers: ['1/layer.tar'] }];

test('writeImageArchive() makes an image whose parts refer to each other by hash', async () => {
  const members = await unpacked(writeImageArchive(IMAGE));
  const { index, manifest, config } = readImage(members);
  expect(JSON.parse(members.get('oci-layout')?.toString() ?? '')).toEqual({ imageLayoutVersion: '1.0.0' });
  expect(index.manifests).toMatchObject([
    {
      platform: { architecture: 'amd64', os: 'linux' },
      annotations: {
        'io.containerd.image.name': IMAGE.reference,
        'org.opencontainers.image.ref.name': 'v1.13.1',
      },
    },
  ]);
  expect(config).toMatchObject({
    architecture: 'amd64',
    os: 'linux',
    config: { Entrypoint: ['/coredns'], User: '65532:65532' },
  });
  const named = [...index.manifests, manifest.config, ...manifest.layers];
  for (const { digest, size } of named) {
    const blob = blobOf(members, digest);
    expect(`sha256:${sha256(blob)}`).toBe(digest);
    expect(blob.length).toBe(size);
  }
  expect(members.size).toBe(named.length + 2);
});

test('writeImageArchive() compresses the layers and returns the digest of each uncompressed layer', async () => {
  const { members, manifest, config } = await imageOf(IMAGE);
  expect(manifest.layers.map(({ mediaType }) => mediaType)).toEqual([ZSTD, ZSTD]);
  const layers = manifest.layers.map(({ digest }) => zstdDecompressSync(blobOf(members, digest)));
  expect(config.rootfs.diff_ids).toEqual(layers.map((each) => `sha256:${sha256(each)}`));
  const [, second = Buffer.alloc(0)] = layers;
  expect([...(await unpacked(inOne(second))).keys()]).toEqual(['coredns']);
});

test("writeImageArchive() gives the same bytes whatever the order of a layer's members", async () => {
  const shuffled = { ...IMAGE, layers: IMAGE.layers.map((entries) => [...entries].reverse()) };
  expect(sha256(await collected(writeImageArchive(shuffled)))).toBe(
    sha256(await collected(writeImageArchive(IMAGE))),
  );
});

test('writeImageArchive() gives equal layers of two images the same hash, and stores one of them', async () => {
  const layers = [accountsLayer(), accountsLayer()];
  const other = await imageOf({ ...IMAGE, reference: 'registry.k8s.io/pause:1', layers });
  const [first, second] = other.manifest.layers;
  expect(first).toEqual(second);
  expect((await imageOf(IMAGE)).manifest.layers[0]).toEqual(first);
});

test('writeImageArchive() stores a layer that two images have once, and lists both images', async () => {
  const other: Image = { reference: 'registry.k8s.io/other:1', architecture: 'amd64', layers: IMAGE.layers };
  const members = await unpacked(writeImageArchive(IMAGE, other));
  const { index } = readImage(members);
  expect(index.manifests).toMatchObject([
    { annotations: { 'io.containerd.image.name': IMAGE.reference } },
    { annotations: { 'io.containerd.image.name': 'registry.k8s.io/other:1' } },
  ]);
  // Two layers, two configurations, two manifests, the index and the layout.
  expect(members.size).toBe(8);
});

test('writeImageArchive() writes the command of an image, and writes no entrypoint if the image has none', async () => {
  const { reference, architecture, layers } = IMAGE;
  const { config } = await imageOf({ reference, architecture, layers, command: ['sh'] });
  expect(config).toMatchObject({ config: { Cmd: ['sh'] } });
  expect(config).not.toMatchObject({ config: { Entrypoint: expect.anything() } });
});

test('writeImageArchive() fails when a layer cannot be read', async () => {
  const content = async function* (): AsyncGenerator<Uint8Array> {
    yield await Promise.reject(new Error('cut'));
  };
  const broken: TarEntry = { type: 'file', path: 'x', mode: 0o644, sizeBytes: 1, content };
  await expect(collected(writeImageArchive({ ...IMAGE, layers: [[broken]] }))).rejects.toThrow('cut');
});

test('writeImageArchive() adds parent directories before their content', async () => {
  const deep = { ...IMAGE, layers: [[tarFileOf('usr/local/bin/kubelet', 'x', 0o755)]] };
  const { members, manifest } = await imageOf(deep);
  const layer = zstdDecompressSync(blobOf(members, manifest.layers[0]?.digest ?? ''));
  expect([...(await unpacked(inOne(layer))).keys()]).toEqual([
    'usr/',
    'usr/local/',
    'usr/local/bin/',
    'usr/local/bin/kubelet',
  ]);
});

test("the file capability is cap_net_bind_service, permitted and effective, in the kernel's format", () => {
  // Format of struct vfs_cap_data: magic | effective, then two pairs of permitted and inheritable,
  // little-endian.
  expect(Buffer.from(CAP_NET_BIND_SERVICE).toString('hex')).toBe('0100000200040000000000000000000000000000');
});

test('retagDockerArchive() changes only the reference', async () => {
  const renamed = await collected(retagDockerArchive(dockerArchive('registry.k8s.io/x:v1'), 'other:v2'));
  expect(renamed).toEqual(await collected(dockerArchive('other:v2')));
});

test('retagDockerArchive() drops the other files that contain the image name', async () => {
  const entries = [
    tarFileOf('oci-layout', '{"imageLayoutVersion":"1.0.0"}'),
    tarFileOf('index.json', '{}'),
    tarFileOf('repositories', '{}'),
    tarFileOf('manifest.json', JSON.stringify(DOCKER_MANIFEST)),
  ];
  const members = await unpacked(retagDockerArchive(writeTar(entries), 'registry.k8s.io/x:v1'));
  expect([...members.keys()]).toEqual(['manifest.json']);
});

test.each([
  { name: 'without a manifest', entries: [tarFileOf('layer.tar', '')] },
  { name: 'with two images', entries: [tarFileOf('manifest.json', '[{},{}]')] },
  { name: 'whose manifest is not JSON', entries: [tarFileOf('manifest.json', '{')] },
  {
    name: 'whose manifest is larger than the limit',
    entries: [tarFileOf('manifest.json', ' '.repeat(100_000))],
  },
])('retagDockerArchive() refuses an archive $name', async ({ entries }) => {
  await expect(collected(retagDockerArchive(writeTar(entries), 'x:1'))).rejects.toMatchObject({
    code: 'bundlebuild-archive',
  });
});

interface Descriptor {
  readonly mediaType: string;
  readonly digest: string;
  readonly size: number;
}

/** The parts of an image, as far as these tests look at them. */
function readImage(members: ReadonlyMap<string, Buffer>) {
  const read = (bytes: Buffer | undefined): unknown => JSON.parse(bytes?.toString() ?? '');
  const index = read(members.get('index.json')) as { manifests: readonly Descriptor[] };
  const manifest = read(blobOf(members, index.manifests[0]?.digest ?? '')) as {
    config: Descriptor;
    layers: readonly Descriptor[];
  };
  const config = read(blobOf(members, manifest.config.digest)) as { rootfs: { diff_ids: readonly string[] } };
  return { index, manifest, config };
}

async function imageOf(image: Image) {
  const members = await unpacked(writeImageArchive(image));
  return { members, ...readImage(members) };
}

function blobOf(members: ReadonlyMap<string, Buffer>, digest: string): Buffer {
  return members.get(`blobs/${digest.replace(':', '/')}`) ?? Buffer.alloc(0);
}

/** An archive in the format that upstream publishes. */
function dockerArchive(reference: string): AsyncIterable<Uint8Array> {
  return writeTar([
    tarFileOf('1/layer.tar', 'layer'),
    tarFileOf('config.json', '{}'),
    tarFileOf('manifest.json', JSON.stringify([{ ...DOCKER_MANIFEST[0], RepoTags: [reference] }])),
  ]);
}

async function unpacked(archive: AsyncIterable<Uint8Array>): Promise<Map<string, Buffer>> {
  const members = new Map<string, Buffer>();
  for await (const { path, content } of readTar(archive)) members.set(path, await collected(content));
  return members;
}

async function collected(chunks: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const all: Uint8Array[] = [];
  for await (const chunk of chunks) all.push(chunk);
  return Buffer.concat(all);
}

async function* inOne(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield await Promise.resolve(bytes);
}

function sha256(bytes: Uint8Array | undefined): string {
  return createHash('sha256')
    .update(bytes ?? '')
    .digest('hex');
}
