import { access, constants, readdir } from 'node:fs/promises';
import { delimiter, join } from 'node:path';

const QEMU = 'qemu-system-x86_64';

/** Where the programs and bundles of this machine are. */
export interface Host {
  /** The search path of programs. */
  readonly path: string;
  /** The directory with `bundles`. */
  readonly cache: string;
}

/** Checks what the bench needs before it downloads anything. @throws Error that names the commands that install what is missing */
export async function checkHost({ path, cache }: Host): Promise<void> {
  const missing: string[] = [];
  const found = await Promise.all(
    path.split(delimiter).map((directory) => isThere(access(join(directory, QEMU), constants.X_OK))),
  );
  if (!found.includes(true)) missing.push(`${QEMU} (\`.ci/setup long\` installs it)`);
  const bundles = await readdir(join(cache, 'bundles')).catch(() => []);
  if (bundles.length === 0) missing.push(`a Kubernetes bundle in ${cache} (\`.ci/setup bundle\` builds it)`);
  if (missing.length > 0) throw new Error(`the suite disk needs ${missing.join(' and ')}`);
}

async function isThere(access: Promise<void>): Promise<boolean> {
  return access.then(
    () => true,
    () => false,
  );
}
