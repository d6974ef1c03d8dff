import {
  fetchPackages,
  ImageError,
  parsePackageLock,
  pinnedPackages,
  type LockedPackage,
  type PackageContext,
  type PackageLock,
} from '../../../internal/image/index.ts';
import additional from './packages.lock.json' with { type: 'json' };

/** Packages of images that the guest needs as well; its kernel is also that of images. */
const OF_IMAGES = [
  ...['cryptsetup-bin', 'e2fsprogs', 'libacl1', 'libargon2-1', 'libblkid1', 'libc6', 'libcom-err2'],
  ...['libcryptsetup12', 'libdevmapper1.02.1', 'libext2fs2', 'libffi8', 'libgcc-s1', 'libgmp10'],
  ...['libgssapi-krb5-2', 'libjson-c5', 'libk5crypto3', 'libkeyutils1', 'libkmod2', 'libkrb5-3'],
  ...['libkrb5support0', 'liblzma5', 'libp11-kit0', 'libpcre2-8-0', 'libpopt0', 'libselinux1', 'libssl3'],
  ...['libstdc++6', 'libtirpc3', 'libudev1', 'libuuid1', 'libzstd1', 'zlib1g'],
];
const KERNEL = /^linux-image-/;

/** What the guest has of the packages of images. */
interface ImagePackages {
  readonly kernel: LockedPackage;
  readonly programs: readonly LockedPackage[];
}

/** @throws Error for a name that no package of images has: the guest would lack it, and fail later */
export function packagesOfImages(
  names: readonly string[] = OF_IMAGES,
  { packages }: Pick<PackageLock, 'packages'> = pinnedPackages(),
): ImagePackages {
  const kernel = packages.find(({ name }) => KERNEL.test(name));
  if (kernel === undefined) throw new Error('images have no package with a kernel');
  const programs = names.map((wanted) => {
    const found = packages.find(({ name }) => name === wanted);
    if (found === undefined)
      throw new Error(
        `images have no package ${wanted}, which the guest of the bench needs: correct OF_IMAGES, then run \`node .ci/bench-packages.ts\``,
      );
    return found;
  });
  return { kernel, programs };
}

/** The packages that the guest has in addition, by their names, as files. @throws Error that says how to pin the newest versions, if one is missing */
export async function fetchAdditional(context: PackageContext): Promise<ReadonlyMap<string, string>> {
  try {
    return await fetchPackages(context, { lock: parsePackageLock(additional), directory: undefined });
  } catch (cause) {
    if (!(cause instanceof ImageError && cause.code === 'image-package-missing')) throw cause;
    throw new Error(
      'fetching the packages of the bench: pin the newest versions with `node .ci/bench-packages.ts` after `apt-get update`',
      { cause },
    );
  }
}
