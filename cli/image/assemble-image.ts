import {
  bootPartitionFiles,
  cdFiles,
  createDisk,
  createIso,
  createQcow2,
  createUki,
  predictRegisters,
  PROVISIONING_CREDENTIAL,
  withCredentials,
  withFirmware,
  type SparseFile,
  type UkiParts,
} from '../../internal/image/index.ts';

/** What `--format` can name. */
export type ImageFormat = 'raw' | 'qcow2' | 'iso' | 'netboot';

/** The file of each format, and the file with its reference values. Both formats of the disk have the same registers. */
export const FORMAT_FILES: Readonly<
  Record<ImageFormat, { readonly file: string; readonly referenceValues: string }>
> = {
  raw: { file: 'disk.raw', referenceValues: 'reference-values.json' },
  qcow2: { file: 'disk.qcow2', referenceValues: 'reference-values.json' },
  iso: { file: 'boot.iso', referenceValues: 'reference-values-iso.json' },
  netboot: { file: 'netboot.efi', referenceValues: 'reference-values-netboot.json' },
};

/** One format of an image. */
export interface FormattedImage {
  readonly format: ImageFormat;
  readonly content: SparseFile;
  readonly registers: ReadonlyMap<number, Uint8Array>;
}

/** The parts of the EFI program, and systemd-boot, which starts it from a disk. */
export interface ImageParts extends UkiParts {
  readonly loader: Uint8Array;
}

/** Parts of an image that depend on its machines. */
export interface ImageSettings {
  readonly formats: readonly ImageFormat[];
  readonly provisioning: Uint8Array;
  /** Size of the state partition of a disk. */
  readonly stateBytes: number;
  /** The registers of the firmware; empty if they are not known. */
  readonly firmware: ReadonlyMap<number, Uint8Array>;
}

/**
 * Makes the EFI program, and of it every format, each with the registers of a machine that starts from it. The same arguments give the same
 * bytes. @throws ImageError
 */
export function assembleImage(
  { loader, ...parts }: ImageParts,
  { formats, provisioning, stateBytes, firmware }: ImageSettings,
): { readonly uki: Uint8Array; readonly images: readonly FormattedImage[] } {
  const uki = createUki(parts);
  const credentials = new Map([[PROVISIONING_CREDENTIAL, provisioning]]);
  const started = { loader: undefined, uki, parts, credentials, partitionTable: undefined };
  const make = (format: ImageFormat): Omit<FormattedImage, 'format'> => {
    if (format === 'iso')
      return { content: createIso(cdFiles(uki, provisioning)), registers: predictRegisters(started) };
    if (format === 'netboot') {
      const whole = withCredentials(parts, credentials);
      const program = createUki(whole);
      return {
        content: { sizeBytes: program.length, extents: [{ offset: 0, bytes: program }] },
        registers: predictRegisters({ ...started, uki: program, parts: whole, credentials: new Map() }),
      };
    }
    const disk = createDisk(bootPartitionFiles({ loader, uki, provisioning }), stateBytes);
    return {
      content: format === 'raw' ? disk : createQcow2(disk),
      registers: predictRegisters({ ...started, loader, partitionTable: disk.measuredTable }),
    };
  };
  const images = formats.map((format) => {
    const { content, registers } = make(format);
    return { format, content, registers: withFirmware(registers, firmware) };
  });
  return { uki, images };
}
