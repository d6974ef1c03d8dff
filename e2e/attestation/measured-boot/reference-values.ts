import { createHash } from 'node:crypto';

/** The files with which a machine with OVMF and direct kernel boot starts. */
export interface BootFiles {
  /** The kernel, a PE image with an EFI stub. */
  readonly kernel: Uint8Array;
  readonly initrd: Uint8Array;
  readonly commandLine: string;
  /** The memory of the machine. QEMU derives the load address of the initrd from its size. */
  readonly memoryBytes: number;
}

/**
 * Computes the PCR values of a boot from its files (TCG PC Client Platform Firmware Profile §3.3.4). PCR 0 cannot be
 * computed, because the firmware measures its PEI volume after its code has changed variables in that volume. The
 * caller gives PCR 0 from a boot that is known to be good. The boot aggregate in PCR 10 depends on PCR 0.
 */
export function referenceValues(files: BootFiles, pcr0: Uint8Array): ReadonlyMap<number, Uint8Array> {
  const registers = new Map<number, Uint8Array>([
    [0, pcr0],
    [1, replay([sha256(BOOT_ORDER), sha256(bootOptionOfUiApp()), SEPARATOR])],
    ...[2, 3, 6].map((pcr) => [pcr, replay([SEPARATOR])] as const),
    [
      4,
      replay([
        authenticode(asHandedOver(files)),
        action('Calling EFI Application from Boot Option'),
        SEPARATOR,
      ]),
    ],
    [
      5,
      replay([
        SEPARATOR,
        action('Exit Boot Services Invocation'),
        action('Exit Boot Services Returned with Success'),
      ]),
    ],
    [7, replay([...SECURE_BOOT_VARIABLES.map(variableDigest), SEPARATOR])],
    // OVMF appends "initrd=initrd" to the command line (X86QemuLoadImageLib).
    [9, replay([sha256(utf16(`${files.commandLine} initrd=initrd\0`)), sha256(files.initrd)])],
  ]);
  return new Map([...registers, [10, replay([bootAggregate(registers)])]]);
}

/** The PCR value after it was extended with each digest in this order, starting from zero. */
export function replay(digests: readonly Uint8Array[]): Uint8Array {
  return digests.reduce<Uint8Array>((value, digest) => sha256(value, digest), new Uint8Array(32));
}

/**
 * The kernel image as QEMU 7.2 passes it to the firmware. QEMU fills in the fields that the boot protocol
 * requires of a boot loader (Documentation/arch/x86/boot.rst), although an EFI stub does not read them.
 */
function asHandedOver({ kernel, initrd, memoryBytes }: BootFiles): Uint8Array {
  const image = new Uint8Array(kernel);
  const view = new DataView(image.buffer);
  const acpiTables = 0x28000;
  const [commandLineAt, realModeAt, pageSize] = [0x20000, 0x10000, 0x1000];
  const highest = memoryBytes - acpiTables - 1 - initrd.length;
  view.setUint8(0x210, 0xb0); // type_of_loader: QEMU
  view.setUint8(0x211, view.getUint8(0x211) | 0x80); // loadflags: CAN_USE_HEAP
  view.setUint16(0x224, commandLineAt - realModeAt - 0x200, true); // heap_end_ptr
  view.setUint32(0x228, commandLineAt, true); // cmd_line_ptr
  view.setUint32(0x218, highest - (highest % pageSize), true); // ramdisk_image
  view.setUint32(0x21c, initrd.length, true); // ramdisk_size
  return image;
}

/**
 * The digest of a PE image without the fields that signing changes (Microsoft, "Windows Authenticode Portable
 * Executable").
 */
export function authenticode(image: Uint8Array): Uint8Array {
  const view = new DataView(image.buffer, image.byteOffset, image.byteLength);
  const optionalHeader = view.getUint32(0x3c, true) + 24;
  const isPe32Plus = view.getUint16(optionalHeader, true) === 0x20b;
  const checksum = optionalHeader + 64;
  const certificates = optionalHeader + (isPe32Plus ? 144 : 128);
  const certificatesAt = view.getUint32(certificates, true);
  const end = certificatesAt === 0 ? image.length : certificatesAt;
  const padding = new Uint8Array((8 - (end % 8)) % 8);
  return sha256(
    image.subarray(0, checksum),
    image.subarray(checksum + 4, certificates),
    image.subarray(certificates + 8, end),
    padding,
  );
}

const SEPARATOR = sha256(new Uint8Array(4));
/** The variable BootOrder with one entry: Boot0000. */
const BOOT_ORDER = new Uint8Array(2);
const GLOBAL_VARIABLE = guid('8be4df61-93ca-11d2-aa0d-00e098032b8c');
const IMAGE_SECURITY = guid('d719b2cb-3d3a-4596-a3bc-dad00e67656f');
/** Secure Boot is off and no keys are enrolled, so each variable is measured with empty content. */
const SECURE_BOOT_VARIABLES = [
  { vendor: GLOBAL_VARIABLE, name: 'SecureBoot', data: Uint8Array.of(0) },
  { vendor: GLOBAL_VARIABLE, name: 'PK', data: new Uint8Array() },
  { vendor: GLOBAL_VARIABLE, name: 'KEK', data: new Uint8Array() },
  { vendor: IMAGE_SECURITY, name: 'db', data: new Uint8Array() },
  { vendor: IMAGE_SECURITY, name: 'dbx', data: new Uint8Array() },
] as const;

/** UEFI_VARIABLE_DATA. */
function variableDigest(variable: {
  readonly vendor: Uint8Array;
  readonly name: string;
  readonly data: Uint8Array;
}): Uint8Array {
  const sizes = new DataView(new ArrayBuffer(16));
  sizes.setBigUint64(0, BigInt(variable.name.length), true);
  sizes.setBigUint64(8, BigInt(variable.data.length), true);
  return sha256(variable.vendor, new Uint8Array(sizes.buffer), utf16(variable.name), variable.data);
}

/** The EFI_LOAD_OPTION of the only boot entry that OVMF creates: the entry for its setup menu. */
function bootOptionOfUiApp(): Uint8Array {
  const path = Buffer.concat([
    Uint8Array.of(0x04, 0x07, 20, 0),
    guid('7cb8bdc9-f8eb-4f34-aaea-3ee4af6516a1'),
    Uint8Array.of(0x04, 0x06, 20, 0),
    guid('462caa21-7614-4503-836e-8ab6f4662331'),
    Uint8Array.of(0x7f, 0xff, 4, 0),
  ]);
  const head = new DataView(new ArrayBuffer(6));
  head.setUint32(0, 0x109, true); // attributes: active, hidden, application
  head.setUint16(4, path.length, true);
  return Buffer.concat([new Uint8Array(head.buffer), utf16('UiApp\0'), path]);
}

/**
 * The first entry of Linux IMA: a digest over PCR 0 to 9, with the template ima-sig
 * (Documentation/security/IMA-templates).
 */
function bootAggregate(registers: ReadonlyMap<number, Uint8Array>): Uint8Array {
  const values = Array.from({ length: 10 }, (_, pcr) => registers.get(pcr) ?? new Uint8Array(32));
  const digest = Buffer.concat([Buffer.from('sha256:\0'), sha256(...values)]);
  return sha256(...[digest, Buffer.from('boot_aggregate\0'), new Uint8Array()].flatMap(withLength));
}

function withLength(field: Uint8Array): readonly Uint8Array[] {
  const length = new DataView(new ArrayBuffer(4));
  length.setUint32(0, field.length, true);
  return [new Uint8Array(length.buffer), field];
}

function action(text: string): Uint8Array {
  return sha256(Buffer.from(text, 'ascii'));
}

function utf16(text: string): Uint8Array {
  return Buffer.from(text, 'utf16le');
}

/** EFI_GUID: the first three fields are little-endian (UEFI, appendix A). */
function guid(text: string): Uint8Array {
  const [a = '', b = '', c = '', d = '', e = ''] = text.split('-');
  const flipped = [a, b, c].map((part) => Buffer.from(part, 'hex').reverse());
  return Buffer.concat([...flipped, Buffer.from(d + e, 'hex')]);
}

function sha256(...parts: readonly Uint8Array[]): Uint8Array {
  const hash = createHash('sha256');
  for (const part of parts) hash.update(part);
  return hash.digest();
}
