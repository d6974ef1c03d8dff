import { expect, test } from '@jest/globals';
import { createHash } from 'node:crypto';
import { accountsLayer, CAP_NET_BIND_SERVICE, writeDockerArchive, type Image } from './image.ts';
import { retagDockerArchive } from './retag.ts';
import { readTar } from './tar-reader.ts';
import { tarFileOf, writeTar, type TarEntry } from './tar-writer.ts';

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

test('writeDockerArchive() makes a manifest, a configuration and layers that name each other by hash', async () => {
  const members = await unpacked(writeDockerArchive(IMAGE));
  const [manifest] = JSON.parse(members.get('manifest.json')?.toString() ?? '') as [
    { Config: string; RepoTags: string[]; Layers: string[] },
  ];
  const config = members.get(manifest.Config);
  expect(manifest.RepoTags).toEqual([IMAGE.reference]);
  expect(manifest.Config).toBe(`${sha256(config)}.json`);
  expect(JSON.parse(config?.toString() ?? '')).toMatchObject({
    architecture: 'amd64',
    os: 'linux',
    config: { Entrypoint: ['/coredns'], User: '65532:65532' },
    rootfs: { diff_ids: manifest.Layers.map((path) => `sha256:${sha256(members.get(path))}`) },
  });
  expect([...members.keys()].sort()).toEqual([manifest.Config, ...manifest.Layers, 'manifest.json'].sort());
});

test('writeDockerArchive() gives the same bytes whatever the order of a layer’s members', async () => {
  const shuffled = { ...IMAGE, layers: IMAGE.layers.map((entries) => [...entries].reverse()) };
  expect(sha256(await collected(writeDockerArchive(shuffled)))).toBe(
    sha256(await collected(writeDockerArchive(IMAGE))),
  );
});

test('writeDockerArchive() gives equal layers of different images the same hash', async () => {
  const other = { ...IMAGE, reference: 'registry.k8s.io/pause:1', layers: [accountsLayer()] };
  const shared = [...(await unpacked(writeDockerArchive(other))).keys()].find((path) =>
    path.endsWith('/layer.tar'),
  );
  expect([...(await unpacked(writeDockerArchive(IMAGE))).keys()]).toContain(shared);
});

test('writeDockerArchive() adds the folders that members lie in, each before its content', async () => {
  const deep = { ...IMAGE, layers: [[tarFileOf('usr/local/bin/kubelet', 'x', 0o755)]] };
  const members = await unpacked(writeDockerArchive(deep));
  const layer = [...members].find(([path]) => path.endsWith('/layer.tar'))?.[1] ?? Buffer.alloc(0);
  expect([...(await unpacked(inOne(layer))).keys()]).toEqual([
    'usr/',
    'usr/local/',
    'usr/local/bin/',
    'usr/local/bin/kubelet',
  ]);
});

test('the capability is cap_net_bind_service, permitted and effective, in the form of the kernel', () => {
  // struct vfs_cap_data: magic | effective, then two pairs of permitted and inheritable, little-endian.
  expect(Buffer.from(CAP_NET_BIND_SERVICE).toString('hex')).toBe('0100000200040000000000000000000000000000');
});

test('retagDockerArchive() changes the reference and nothing else', async () => {
  const renamed = { ...IMAGE, reference: 'registry.k8s.io/other:v2' };
  expect(await collected(retagDockerArchive(writeDockerArchive(IMAGE), renamed.reference))).toEqual(
    await collected(writeDockerArchive(renamed)),
  );
});

test('retagDockerArchive() drops what else would name the image', async () => {
  const [manifest] = [...(await unpacked(writeDockerArchive(IMAGE))).entries()].filter(
    ([path]) => path === 'manifest.json',
  );
  const entries = [
    tarFileOf('oci-layout', '{"imageLayoutVersion":"1.0.0"}'),
    tarFileOf('index.json', '{}'),
    tarFileOf('repositories', '{}'),
    tarFileOf('manifest.json', manifest?.[1] ?? ''),
  ];
  const members = await unpacked(retagDockerArchive(writeTar(entries), 'registry.k8s.io/x:v1'));
  expect([...members.keys()]).toEqual(['manifest.json']);
});

test.each([
  { name: 'without a manifest', entries: [tarFileOf('layer.tar', '')] },
  { name: 'with two images', entries: [tarFileOf('manifest.json', '[{},{}]')] },
  { name: 'whose manifest is no JSON', entries: [tarFileOf('manifest.json', '{')] },
  { name: 'whose manifest is endless', entries: [tarFileOf('manifest.json', ' '.repeat(100_000))] },
])('retagDockerArchive() refuses an archive $name', async ({ entries }) => {
  await expect(collected(retagDockerArchive(writeTar(entries), 'x:1'))).rejects.toMatchObject({
    code: 'bundle-archive',
  });
});

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
