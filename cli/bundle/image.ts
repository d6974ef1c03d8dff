import { dirname } from 'node:path';
import { digestOf, type Architecture } from '../../internal/bundle/index.ts';
import { tarFileOf, writeTar, type TarEntry } from './tar-writer.ts';

/** An image from nothing. */
export interface Image {
  readonly reference: string;
  readonly architecture: Architecture;
  /** Lowest first; parent folders are added, members are sorted. */
  readonly layers: readonly (readonly TarEntry[])[];
  readonly entrypoint: string;
  readonly user?: string;
}

/**
 * cap_net_bind_service=ep as the kernel keeps it in `security.capability`: VFS_CAP_REVISION_2 with the
 * effective bit, then permitted and inheritable words, little-endian (linux/capability.h).
 */
export const CAP_NET_BIND_SERVICE = Uint8Array.from([
  ...[0x01, 0x00, 0x00, 0x02],
  ...[0x00, 0x04, 0x00, 0x00],
  ...new Array<number>(12).fill(0),
]);

const CREATED = '1970-01-01T00:00:00Z';
const PATH = 'PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';

/**
 * A docker-archive (`docker save` form: manifest.json, a configuration, one tar per layer), which containerd
 * imports without any registry. The same image gives the same bytes; equal layers have equal digests.
 */
export async function* writeDockerArchive(image: Image): AsyncGenerator<Uint8Array> {
  const layers = image.layers.map(sortedLayer);
  const digests = await Promise.all(layers.map((entries) => digestOf(writeTar(entries))));
  const diffIds = digests.map((each) => each.sha256);
  const config = new TextEncoder().encode(JSON.stringify(configOf(image, diffIds)));
  const configName = `${(await digestOf([config])).sha256}.json`;
  const manifest = [
    { Config: configName, RepoTags: [image.reference], Layers: diffIds.map((each) => `${each}/layer.tar`) },
  ];
  yield* writeTar([
    ...layers.map((entries, index): TarEntry => {
      const { sha256 = '', sizeBytes = 0 } = digests[index] ?? {};
      return {
        type: 'file',
        path: `${sha256}/layer.tar`,
        mode: 0o644,
        sizeBytes,
        content: () => writeTar(entries),
      };
    }),
    tarFileOf(configName, config),
    tarFileOf('manifest.json', JSON.stringify(manifest)),
  ]);
}

/** The accounts that every image of ours has, and the folders that programs expect. */
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
      Entrypoint: [image.entrypoint],
      WorkingDir: '/',
      ...(image.user === undefined ? {} : { User: image.user }),
    },
    rootfs: { type: 'layers', diff_ids: diffIds.map((each) => `sha256:${each}`) },
    history: diffIds.map(() => ({ created: CREATED, created_by: 'cluster bundle build' })),
  };
}

/** Adds the folders that the members lie in and sorts by path, so that a folder comes before what is in it. */
function sortedLayer(entries: readonly TarEntry[]): readonly TarEntry[] {
  const all = new Map(entries.map((entry) => [entry.path, entry]));
  for (const entry of entries) {
    for (let folder = dirname(entry.path); folder !== '.'; folder = dirname(folder)) {
      if (!all.has(folder)) all.set(folder, { type: 'directory', path: folder, mode: 0o755 });
    }
  }
  return [...all.values()].sort((a, b) => (a.path < b.path ? -1 : 1));
}
