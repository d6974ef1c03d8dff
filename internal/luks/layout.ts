/** The only layout of a state disk that this program creates and accepts; sizes in bytes. */
export const LAYOUT = {
  /** One copy of the header: binary part and JSON. */
  copyBytes: 16 * 1024,
  binaryBytes: 4096,
  /** Two copies, then the areas of the key slots. */
  slotsOffset: 32 * 1024,
  slotsBytes: 4 * 1024 * 1024,
  /** The whole header. It is not at the beginning of the disk: `internal/statedisk` keeps it in its records. */
  headerBytes: 32 * 1024 + 4 * 1024 * 1024,
  /** Where the data begins on the disk. */
  dataOffset: 16 * 1024 * 1024,
  sectorBytes: 4096,
} as const;

/** How the data of a state disk is encrypted. */
export interface DiskCipher {
  /** Whether each sector has a tag that shows a change of its content. */
  readonly isAuthenticated: boolean;
  /** As cryptsetup names it. */
  readonly encryption: string;
  /** The integrity algorithm of a segment as the metadata names it; undefined if the data has no integrity tags. */
  readonly integrity: string | undefined;
  /** Size of the volume key, including the key for the integrity tags. */
  readonly keyBytes: number;
}

const TAG_HASH = 'sha256';
/** The HMAC of a sector, as the option `--integrity` of cryptsetup(8) names it, and as the metadata do. */
export const INTEGRITY = { option: `hmac-${TAG_HASH}`, metadata: `hmac(${TAG_HASH})` } as const;

/** AES-256 in XTS mode: hides the content; a changed sector decrypts to noise and is not detected. */
export const PLAIN_CIPHER: DiskCipher = {
  isAuthenticated: false,
  encryption: 'aes-xts-plain64',
  integrity: undefined,
  keyBytes: 64,
};
/**
 * The same cipher, with an HMAC-SHA-256 of each sector in addition: a read of a changed sector fails. All data is
 * written twice, into a journal first.
 */
export const AUTHENTICATED_CIPHER: DiskCipher = {
  isAuthenticated: true,
  encryption: 'aes-xts-plain64',
  integrity: INTEGRITY.metadata,
  keyBytes: 96,
};

/** How the key slots are encrypted, for both ciphers of the data. */
export const SLOT_CIPHER = { encryption: 'aes-xts-plain64', keyBytes: 64 } as const;
/**
 * How the encryption key of a slot is derived from 32 random bytes. No work factor is needed, because nobody can guess
 * random bytes.
 */
export const SLOT_KDF = {
  type: 'pbkdf2',
  hash: 'sha256',
  minIterations: 1000,
  maxIterations: 10_000_000,
} as const;
/** The anti-forensic splitter of cryptsetup. */
export const STRIPES = 4000;
/**
 * Maximum number of key slots: each purpose for which the disk is opened has one slot, and a second slot while the
 * first is replaced.
 */
export const MAX_SLOTS = 8;
/** Number of the only segment and of the only digest. */
export const ONLY_ID = '0';

/** The size of the area of a slot for a volume key: its stripes, in whole sectors. */
export function slotAreaBytes(keyBytes: number): number {
  return Math.ceil((keyBytes * STRIPES) / 4096) * 4096;
}
