import { createHash } from 'node:crypto';
import { dirname } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { constants, createZstdCompress } from 'node:zlib';
import type { Architecture } from '../../bundle/index.ts';
import { tarFileOf, writeTar, type TarEntry } from '../archive/tar-writer.ts';

/** A container image without a base image. */
export interface Image {
  readonly reference: string;
  readonly architecture: Architecture;
  /** The lowest layer is first. Parent directories are added, and entries are sorted. */
  readonly layers: readonly (readonly TarEntry[])[];
  readonly entrypoint?: string;
  /** The arguments of the entrypoint, or the whole command of an image without an entrypoint. */
  readonly command?: readonly string[];
  readonly user?: string;
}

/**
 * The extended attribute `security.capability` for cap_net_bind_service=ep: VFS_CAP_REVISION_2 with the effective bit, then the
 * permitted and inheritable words, little-endian (linux/capability.h).
 */
export const CAP_NET_BIND_SERVICE = Uint8Array.from([
  ...[0x01, 0x00, 0x00, 0x02],
  ...[0x00, 0x04, 0x00, 0x00],
  ...new Array<number>(12).fill(0),
]);

const MANIFEST = 'application/vnd.oci.image.manifest.v1+json';
const INDEX = 'application/vnd.oci.image.index.v1+json';
/**
 * Compresses to a tenth less than the default level. Layers are compressed once and decompressed on every
 * node.
 */
const ZSTD_LEVEL = 9;
const CREATED = '1970-01-01T00:00:00Z';
const PATH = 'PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';

/**
 * An OCI image layout in one tar archive, which containerd imports without a registry. The same images give
 * the same bytes, and a layer that several of them have is stored once. Layers are compressed to a quarter of
 * their size: each node receives, hashes, imports and writes every byte of an archive, and this costs more
 * than to decompress it.
 */
export async function* writeImageArchive(...images: readonly Image[]): AsyncGenerator<Uint8Array> {
  const compressed = new Map<readonly TarEntry[], CompressedLayer>();
  for (const entries of new Set(images.flatMap(({ layers }) => layers)))
    compressed.set(entries, await compressLayer(sortedLayer(entries)));
  const blobs = new Map<string, Uint8Array>();
  const manifests: object[] = [];
  for (const image of images) {
    const layers = image.layers.flatMap((entries) => compressed.get(entries) ?? []);
    const diffIds = layers.map(({ diffId }) => diffId);
    const config = jsonBlob('application/vnd.oci.image.config.v1+json', configOf(image, diffIds));
    const manifest = jsonBlob(MANIFEST, {
      schemaVersion: 2,
      mediaType: MANIFEST,
      config: descriptorOf(config),
      layers: layers.map(descriptorOf),
    });
    for (const { sha256, bytes } of [...layers, config, manifest]) blobs.set(sha256, bytes);
    manifests.push(indexEntryOf(image, manifest));
  }
  const index = { schemaVersion: 2, mediaType: INDEX, manifests };
  yield* writeTar([
    ...[...blobs].map(([sha256, bytes]) => tarFileOf(`blobs/sha256/${sha256}`, bytes)),
    tarFileOf('index.json', JSON.stringify(index)),
    tarFileOf('oci-layout', JSON.stringify({ imageLayoutVersion: '1.0.0' })),
  ]);
}

interface Blob {
  readonly mediaType: string;
  readonly bytes: Uint8Array;
  readonly sha256: string;
}

interface CompressedLayer extends Blob {
  /** SHA-256 of the uncompressed layer, hex. */
  readonly diffId: string;
}

async function compressLayer(entries: readonly TarEntry[]): Promise<CompressedLayer> {
  const unpacked = createHash('sha256');
  const hashed = async function* (): AsyncGenerator<Uint8Array> {
    for await (const chunk of writeTar(entries)) {
      unpacked.update(chunk);
      yield chunk;
    }
  };
  const packer = createZstdCompress({ params: { [constants.ZSTD_c_compressionLevel]: ZSTD_LEVEL } });
  const chunks: Uint8Array[] = [];
  await pipeline(hashed, packer, async (packed: AsyncIterable<Uint8Array>) => {
    for await (const chunk of packed) chunks.push(chunk);
  });
  const blob = blobOf('application/vnd.oci.image.layer.v1.tar+zstd', Buffer.concat(chunks));
  return { ...blob, diffId: unpacked.digest('hex') };
}

function jsonBlob(mediaType: string, content: unknown): Blob {
  return blobOf(mediaType, Buffer.from(JSON.stringify(content)));
}

function blobOf(mediaType: string, bytes: Uint8Array): Blob {
  return { mediaType, bytes, sha256: createHash('sha256').update(bytes).digest('hex') };
}

function descriptorOf({ mediaType, bytes, sha256 }: Blob) {
  return { mediaType, digest: `sha256:${sha256}`, size: bytes.length };
}

function indexEntryOf({ reference, architecture }: Image, manifest: Blob): object {
  const annotations = {
    'io.containerd.image.name': reference,
    'org.opencontainers.image.ref.name': reference.slice(reference.lastIndexOf(':') + 1),
  };
  return { ...descriptorOf(manifest), platform: { architecture, os: 'linux' }, annotations };
}

/** The user database of every image that we build, and the directories that programs expect. */
export function accountsLayer(): readonly TarEntry[] {
  return [
    { type: 'directory', path: 'tmp', mode: 0o1777 },
    { type: 'directory', path: 'root', mode: 0o700 },
    { type: 'directory', path: 'run', mode: 0o755 },
    { type: 'directory', path: 'var', mode: 0o755 },
    tarFileOf('etc/passwd', 'root:x:0:0:root:/root:/\nnobody:x:65534:65534:nobody:/:/\n'),
    tarFileOf('etc/group', 'root:x:0:\nnobody:x:65534:\n'),
    tarFileOf('etc/nsswitch.conf', 'hosts: files dns\n'),
  ];
}

function configOf(image: Image, diffIds: readonly string[]): unknown {
  return {
    architecture: image.architecture,
    os: 'linux',
    created: CREATED,
    config: {
      Env: [PATH],
      ...(image.entrypoint === undefined ? {} : { Entrypoint: [image.entrypoint] }),
      ...(image.command === undefined ? {} : { Cmd: image.command }),
      WorkingDir: '/',
      ...(image.user === undefined ? {} : { User: image.user }),
    },
    rootfs: { type: 'layers', diff_ids: diffIds.map((each) => `sha256:${each}`) },
    history: diffIds.map(() => ({ created: CREATED, created_by: 'cluster bundle build' })),
  };
}

/** Adds parent directories and sorts by path, so that a directory comes before its content. */
function sortedLayer(entries: readonly TarEntry[]): readonly TarEntry[] {
  const all = new Map(entries.map((entry) => [entry.path, entry]));
  for (const entry of entries) {
    for (let directory = dirname(entry.path); directory !== '.'; directory = dirname(directory)) {
      if (!all.has(directory)) all.set(directory, { type: 'directory', path: directory, mode: 0o755 });
    }
  }
  return [...all.values()].sort((a, b) => (a.path < b.path ? -1 : 1));
}
