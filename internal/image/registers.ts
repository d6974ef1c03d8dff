import { createHash } from 'node:crypto';
import { credentialsInitrd, joinInitrds } from './credentials.ts';
import { authenticodeDigest } from './pe.ts';
import { measuredSections, type UkiParts } from './uki.ts';

const DIGEST_BYTES = 32;

/** What a machine measures into the TPM when it starts an image. */
export interface MeasuredImage {
  /** systemd-boot, if it starts the image; undefined: firmware starts the image itself. */
  readonly loader: Uint8Array | undefined;
  readonly uki: Uint8Array;
  readonly parts: UkiParts;
  /** The files of `/loader/credentials` on the boot partition, by name. */
  readonly credentials: ReadonlyMap<string, Uint8Array>;
  /** UEFI_GPT_DATA of the disk; see `encodeTable`. Undefined: it starts from a CD or over the network, not from a disk. */
  readonly partitionTable: Uint8Array | undefined;
}

/**
 * Computes the registers that follow from the image alone, on a machine whose firmware starts it as its first boot option
 * (TCG PC Client Platform Firmware Profile §3.3.4; systemd-stub(7)) without Secure Boot. The name of an image on the boot partition is not measured.
 *
 * | PCR | measured by | what |
 * |---|---|---|
 * | 4 | firmware | systemd-boot, the boot image, and the kernel in it |
 * | 5 | firmware | the partition table, and the exit from the firmware |
 * | 12 | systemd-boot, systemd-stub | the command line, once by each; the provisioning file |
 * | 9 | kernel | command line and initrd, with the provisioning file |
 * | 11 | systemd-stub | kernel, release, command line, initrd |
 * | 8, 13, 14 | boot loaders, systemd-stub | nothing: no loader that measures there, no extension, no key of a user |
 */
export function predictRegisters(image: MeasuredImage): ReadonlyMap<number, Uint8Array> {
  const { loader, parts, uki, partitionTable } = image;
  const commandLine = sha256(utf16(`${parts.commandLine}\0`));
  const credentials = credentialsInitrd(image.credentials);
  const initrds = [parts.initrd, ...(credentials === undefined ? [] : [credentials])];
  const provisioning = credentials === undefined ? [] : [sha256(credentials)];
  const sections = measuredSections(parts).flatMap(({ name, content }) => [
    sha256(Buffer.from(`${name}\0`)),
    sha256(content),
  ]);
  return new Map([
    [
      4,
      replay([
        action('Calling EFI Application from Boot Option'),
        SEPARATOR,
        ...(loader === undefined ? [] : [authenticodeDigest(loader)]),
        authenticodeDigest(uki),
        authenticodeDigest(parts.kernel),
      ]),
    ],
    [
      5,
      replay([
        SEPARATOR,
        ...(partitionTable === undefined ? [] : [sha256(partitionTable)]),
        action('Exit Boot Services Invocation'),
        action('Exit Boot Services Returned with Success'),
      ]),
    ],
    [8, replay([])],
    [9, replay([commandLine, sha256(joinInitrds(initrds))])],
    [11, replay(sections)],
    // systemd-boot hands the command line over, and systemd-stub measures what is handed over (`image_start` and `efi_main` in
    // their sources).
    [12, replay([...(loader === undefined ? [] : [commandLine, commandLine]), ...provisioning])],
    [13, replay([])],
    [14, replay([])],
  ]);
}

/**
 * The PCRs that depend on the firmware: its code, its configuration, and Secure Boot. They cannot be computed from an
 * image.
 */
export const FIRMWARE_REGISTERS: readonly number[] = [0, 1, 2, 3, 6, 7];

/**
 * Adds the register values of one firmware. If all of them are given, PCR 10 is added too: the kernel extends PCR 10
 * once, with a digest over PCR 0 to 9 (Documentation/security/IMA-templates.rst, template `ima-sig`).
 */
export function withFirmware(
  image: ReadonlyMap<number, Uint8Array>,
  firmware: ReadonlyMap<number, Uint8Array>,
): ReadonlyMap<number, Uint8Array> {
  const all = new Map(image);
  for (const pcr of FIRMWARE_REGISTERS) {
    const value = firmware.get(pcr);
    if (value !== undefined) all.set(pcr, value);
  }
  const measured = Array.from({ length: 10 }, (_, pcr) => all.get(pcr) ?? []).flat();
  if (measured.length === 10) all.set(10, replay([bootAggregate(measured)]));
  return new Map([...all].sort(([a], [b]) => a - b));
}

function bootAggregate(registers: readonly Uint8Array[]): Uint8Array {
  const digest = Buffer.concat([Buffer.from('sha256:\0'), sha256(...registers)]);
  const fields = [digest, Buffer.from('boot_aggregate\0'), new Uint8Array()];
  return sha256(...fields.flatMap((field) => [lengthOf(field), field]));
}

function lengthOf(field: Uint8Array): Uint8Array {
  const length = Buffer.alloc(4);
  length.writeUInt32LE(field.length);
  return length;
}

/** The value of a register after it was extended with each digest in this order, starting from zero. */
function replay(digests: readonly Uint8Array[]): Uint8Array {
  return digests.reduce<Uint8Array>((value, digest) => sha256(value, digest), new Uint8Array(DIGEST_BYTES));
}

const SEPARATOR = sha256(new Uint8Array(4));

function action(text: string): Uint8Array {
  return sha256(Buffer.from(text, 'ascii'));
}

function utf16(text: string): Uint8Array {
  return Buffer.from(text, 'utf16le');
}

function sha256(...parts: readonly Uint8Array[]): Uint8Array {
  const hash = createHash('sha256');
  for (const part of parts) hash.update(part);
  return hash.digest();
}
