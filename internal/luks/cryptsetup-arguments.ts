import { INTEGRITY, LAYOUT, PLAIN_CIPHER, SLOT_KDF } from './layout.ts';

/** `--offset` counts in them, whatever the sectors of the data are. */
const OFFSET_UNIT_BYTES = 512;

/**
 * How cryptsetup derives the key of a slot. It is the only way that `parseLuksHeader()` accepts. The keys are random, so more
 * iterations would not protect them better.
 */
export const SLOT_ARGUMENTS = [
  ...['--hash', SLOT_KDF.hash, '--pbkdf', SLOT_KDF.type],
  ...['--pbkdf-force-iterations', String(SLOT_KDF.minIterations)],
] as const;

/** The cipher of the data, for `cryptsetup luksFormat` and `cryptsetup benchmark`. */
export const CIPHER_ARGUMENTS = [
  ...['--cipher', PLAIN_CIPHER.encryption],
  ...['--key-size', String(PLAIN_CIPHER.keyBytes * 8)],
] as const;

/** What a disk is formatted with. */
interface FormatArguments {
  readonly uuid: string;
  /** Whether each sector gets a tag (dm-integrity). */
  readonly isAuthenticated: boolean;
  /** A file of `LAYOUT.headerBytes` zeros, which becomes the header. */
  readonly header: string;
  readonly device: string;
}

/**
 * The arguments of cryptsetup(8) that create the header of a state disk with one slot: the form that `parseLuksHeader()` accepts. The
 * key of the slot is read from standard input.
 */
export function formatArguments({
  uuid,
  isAuthenticated,
  header,
  device,
}: FormatArguments): readonly string[] {
  return [
    ...['luksFormat', '--type', 'luks2', '--uuid', uuid],
    ...CIPHER_ARGUMENTS,
    ...[
      '--luks2-metadata-size',
      String(LAYOUT.copyBytes),
      '--luks2-keyslots-size',
      String(LAYOUT.slotsBytes),
    ],
    ...[
      '--offset',
      String(LAYOUT.dataOffset / OFFSET_UNIT_BYTES),
      '--sector-size',
      String(LAYOUT.sectorBytes),
    ],
    ...[...SLOT_ARGUMENTS, ...(isAuthenticated ? ['--integrity', INTEGRITY.option] : [])],
    ...['--header', header, '--key-file', '-', device],
  ];
}

/** Of a mapping. */
interface OpenArguments {
  readonly header: string;
  readonly slot: number;
  readonly device: string;
  /** Of the mapping below /dev/mapper. */
  readonly name: string;
}

/** The arguments of cryptsetup(8) that map a state disk. The key of the slot is read from standard input. */
export function openArguments({ header, slot, device, name }: OpenArguments): readonly string[] {
  const at = ['--header', header, '--key-file', '-', '--key-slot', String(slot)];
  return ['open', '--type', 'luks2', ...at, device, name];
}
