import type { BundleManifest } from '../bundle/index.ts';

/** Where the agent keeps its state and the components of the bundle. */
const STATE = '/var/lib/cluster';
/** Where containerd keeps images. */
const IMAGES = '/var/lib/containerd';
/** Disk space that is needed in addition to the bundle: for etcd and logs. */
const HEADROOM_BYTES = 1024 ** 3;
/** containerd keeps images packed and unpacked. Unpacked images are about four times as large. */
const IMAGE_FACTOR = 6;

/** Free space that a machine must have. */
export interface NeededSpace {
  /** Directory → bytes that must be free on its file system. */
  readonly neededBytes: Readonly<Record<string, number>>;
  /** False: the size of the bundle is not known, so the space for it is not a part of `neededBytes`. */
  readonly includesBundle: boolean;
}

/** The minimum for a machine without the space for a bundle, as before a join. */
export const LEAST_SPACE: NeededSpace = {
  neededBytes: { [STATE]: HEADROOM_BYTES, [IMAGES]: HEADROOM_BYTES },
  includesBundle: false,
};

/**
 * The space that an init needs.
 * @param manifest Undefined: the bundle is not known
 * @param missingBytes Size of the components and snapshots that are still to be uploaded
 * @param databaseBytes Size of the databases that are restored from snapshots, which are deleted only afterwards
 */
export function neededSpace(
  manifest: BundleManifest | undefined,
  missingBytes = 0,
  databaseBytes = 0,
): NeededSpace {
  if (manifest === undefined) return LEAST_SPACE;
  const { components } = manifest;
  return {
    neededBytes: {
      [STATE]: missingBytes + databaseBytes + sizeOf(components) + HEADROOM_BYTES,
      [IMAGES]: IMAGE_FACTOR * sizeOf(components.filter(({ kind }) => kind === 'image')),
    },
    includesBundle: true,
  };
}

/** Size of the components that an init uploads to a machine that has none of them. */
export function uploadBytes({ components }: BundleManifest): number {
  return sizeOf(components.filter(({ scope }) => scope === 'node' || scope === 'controlplane'));
}

function sizeOf(components: readonly { readonly sizeBytes: number }[]): number {
  return components.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
}
