/** A member of a cpio archive. `path` has no leading slash. */
export type CpioEntry =
  | { readonly kind: 'directory'; readonly path: string; readonly mode: number }
  | { readonly kind: 'symlink'; readonly path: string; readonly target: string }
  | { readonly kind: 'file'; readonly path: string; readonly mode: number; readonly content: Uint8Array };

const MAGIC = '070701';
/** The end of an archive, with the same bytes as systemd-stub writes. */
const TRAILER = `${MAGIC}${'00000000'.repeat(4)}00000001${'00000000'.repeat(6)}0000000B00000000TRAILER!!!\0\0\0\0`;
const TYPES = { directory: 0o040000, symlink: 0o120000, file: 0o100000 } as const;
const ALIGNMENT = 4;

/**
 * An archive in the kernel's format "newc" (Documentation/driver-api/early-userspace/buffer-format.rst). The bytes depend on
 * the entries alone: all belong to root, times are zero, and inodes count from `firstInode`.
 */
export function* writeCpio(entries: Iterable<CpioEntry>, firstInode = 1): Generator<Uint8Array> {
  let inode = firstInode;
  for (const entry of entries) {
    const content = contentOf(entry);
    const mode = TYPES[entry.kind] | (entry.kind === 'symlink' ? 0o777 : entry.mode);
    yield header({ inode: inode++, mode, path: entry.path, sizeBytes: content.length });
    yield content;
    yield padding(content.length);
  }
  yield Buffer.from(TRAILER);
}

function contentOf(entry: CpioEntry): Uint8Array {
  if (entry.kind === 'file') return entry.content;
  return entry.kind === 'symlink' ? Buffer.from(entry.target) : new Uint8Array();
}

function header(entry: {
  readonly inode: number;
  readonly mode: number;
  readonly path: string;
  readonly sizeBytes: number;
}): Uint8Array {
  const { inode, mode, path, sizeBytes } = entry;
  const name = Buffer.from(`${path}\0`);
  // inode, mode, owner, group, links, time, size, device (2), special device (2), length of the name, checksum
  const fields = [inode, mode, 0, 0, 1, 0, sizeBytes, 0, 0, 0, 0, name.length, 0];
  const text = Buffer.from(MAGIC + fields.map((field) => field.toString(16).padStart(8, '0')).join(''));
  return Buffer.concat([text, name, padding(text.length + name.length)]);
}

/** Headers and contents start at multiples of four bytes. */
function padding(length: number): Uint8Array {
  return new Uint8Array((ALIGNMENT - (length % ALIGNMENT)) % ALIGNMENT);
}
