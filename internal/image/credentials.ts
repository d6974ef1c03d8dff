import { writeCpio, type CpioEntry } from './cpio.ts';
import { CREDENTIALS_DIRECTORY } from './image-files.ts';
import type { UkiParts } from './uki.ts';

const INITRD_ALIGNMENT = 4;

/**
 * The initrd that systemd-stub makes of the files of `/loader/credentials` on the boot partition (`pack_cpio` in its sources).
 * Undefined without files: systemd-stub then makes none.
 */
export function credentialsInitrd(credentials: ReadonlyMap<string, Uint8Array>): Uint8Array | undefined {
  if (credentials.size === 0) return undefined;
  const files = [...credentials].sort(([a], [b]) => (a < b ? -1 : 1));
  const [parent = ''] = CREDENTIALS_DIRECTORY.split('/');
  const entries: readonly CpioEntry[] = [
    { kind: 'directory', path: parent, mode: 0o555 },
    { kind: 'directory', path: CREDENTIALS_DIRECTORY, mode: 0o500 },
    ...files.map(([name, content]): CpioEntry => {
      return { kind: 'file', path: `${CREDENTIALS_DIRECTORY}/${name}`, mode: 0o400, content };
    }),
  ];
  return Buffer.concat([...writeCpio(entries)]);
}

/** One initrd after the other, each from a multiple of four bytes on, as systemd-stub joins them. */
export function joinInitrds(initrds: readonly Uint8Array[]): Uint8Array {
  return Buffer.concat(initrds.flatMap((initrd) => [initrd, padding(initrd.length)]));
}

/**
 * The parts of an EFI program that has the credentials in it, for machines that get one file over the network. The kernel sees the same
 * initrd as with credentials on a boot partition.
 */
export function withCredentials(parts: UkiParts, credentials: ReadonlyMap<string, Uint8Array>): UkiParts {
  const added = credentialsInitrd(credentials);
  return added === undefined ? parts : { ...parts, initrd: joinInitrds([parts.initrd, added]) };
}

function padding(length: number): Uint8Array {
  return new Uint8Array((INITRD_ALIGNMENT - (length % INITRD_ALIGNMENT)) % INITRD_ALIGNMENT);
}
