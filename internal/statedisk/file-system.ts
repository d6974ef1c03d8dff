/**
 * The options of mkfs.ext4(8) for the file system of a state disk. `nodiscard`: with dm-integrity, a discarded sector cannot be read. The
 * file system is initialized completely now, not later while the machine works.
 */
export const FILE_SYSTEM_OPTIONS = [
  '-q',
  '-F',
  '-E',
  'nodiscard,lazy_itable_init=0,lazy_journal_init=0',
] as const;

/** The options of mount(8) for this file system. */
export const MOUNT_OPTIONS = ['-t', 'ext4', '-o', 'noatime'] as const;
