import { z } from 'zod';
import { ImageError } from './errors.ts';
import pinned from './packages.lock.json' with { type: 'json' };

const lockedPackage = z.strictObject({
  name: z.string().regex(/^[a-z0-9][a-z0-9.+-]+$/),
  version: z.string().regex(/^[A-Za-z0-9.+~:-]+$/),
  sha256: z.string().regex(/^[0-9a-f]{64}$/),
  sizeBytes: z.number().int().positive(),
});

const lockFile = z.strictObject({
  /** Suite of Debian. */
  suite: z.string(),
  architecture: z.literal('amd64'),
  packages: z.array(lockedPackage).min(1),
});

/** A Debian package, pinned to its bytes. */
export type LockedPackage = Readonly<z.infer<typeof lockedPackage>>;

/** The Debian packages of which an image is made. */
export interface PackageLock {
  readonly suite: string;
  readonly architecture: 'amd64';
  readonly packages: readonly LockedPackage[];
}

/**
 * For which machines an image has drivers: Debian's kernel for clouds is a third of the size of the other one, and has those of virtual
 * machines only.
 */
export type Hardware = 'virtual' | 'server';

const KERNEL = /^linux-image-/;
const CLOUD_KERNEL = /^linux-image-.+-cloud-amd64$/;

/** The packages of this release, with one kernel. @throws ImageError `image-lock` */
export function pinnedPackages(hardware: Hardware = 'virtual'): PackageLock {
  const lock = parsePackageLock(pinned);
  const isWanted = ({ name }: LockedPackage): boolean =>
    !KERNEL.test(name) || CLOUD_KERNEL.test(name) === (hardware === 'virtual');
  return { ...lock, packages: lock.packages.filter(isWanted) };
}

/** Parses the list of pinned packages. @throws ImageError `image-lock` */
export function parsePackageLock(value: unknown): PackageLock {
  const parsed = lockFile.safeParse(value);
  if (!parsed.success)
    throw new ImageError('image-lock', 'reading the list of pinned packages', { cause: parsed.error });
  const names = parsed.data.packages.map(({ name }) => name);
  const twice = names.find((name, index) => names.indexOf(name) !== index);
  if (twice !== undefined) throw new ImageError('image-lock', `package ${twice} is pinned twice`);
  return parsed.data;
}
