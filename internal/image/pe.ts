import { createHash } from 'node:crypto';
import { ImageError } from './errors.ts';

/** A section that is added to an EFI program. */
export interface PeSection {
  /** At most eight ASCII characters, such as `.linux`. */
  readonly name: string;
  readonly content: Uint8Array;
}

const PE_OFFSET_AT = 0x3c;
const SIGNATURE = 0x0000_4550; // "PE\0\0"
const PE32_PLUS = 0x20b;
const COFF_BYTES = 24; // with the signature
const SECTION_HEADER_BYTES = 40;
const FILE_ALIGNMENT = 512;
/** Sections start at pages, because the kernel is started where its section lies. */
const PAGE = 4096;
/** IMAGE_SCN_CNT_INITIALIZED_DATA and IMAGE_SCN_MEM_READ. */
const READ_ONLY_DATA = 0x4000_0040;

/** Offsets in a PE file (Microsoft, "PE Format"). */
interface PeLayout {
  readonly view: DataView;
  readonly coff: number;
  readonly optional: number;
  readonly sections: number;
  readonly count: number;
}

/**
 * Adds sections to the boot stub of systemd, which makes a unified kernel image (UKI). The bytes depend on the
 * arguments alone.
 * @throws ImageError `image-pe`
 */
export function addSections(stub: Uint8Array, added: readonly PeSection[]): Uint8Array {
  const { view, coff, optional, sections, count } = layoutOf(stub);
  const headersEnd = view.getUint32(optional + 60, true);
  if (sections + (count + added.length) * SECTION_HEADER_BYTES > headersEnd)
    throw new ImageError('image-pe', `no room for ${added.length} more sections in the boot stub`);
  let address = 0;
  let offset = headersEnd;
  for (let index = 0; index < count; index++) {
    const at = sections + index * SECTION_HEADER_BYTES;
    address = Math.max(address, view.getUint32(at + 12, true) + view.getUint32(at + 8, true));
    // Firmware hashes one section after the other, and no bytes between sections. Without gaps, its digest equals the
    // digest of the whole file.
    if (view.getUint32(at + 20, true) !== offset)
      throw new ImageError(
        'image-pe',
        `section ${index} of the boot stub does not follow the section before it`,
      );
    offset += view.getUint32(at + 16, true);
  }
  if (offset > stub.length || offset % FILE_ALIGNMENT !== 0)
    throw new ImageError('image-pe', 'the boot stub is truncated');
  const symbolsAt = offset;
  const placed = added.map(({ name, content }) => {
    address = align(address, PAGE);
    const place = { name, content, address, offset, sizeOnDisk: align(content.length, FILE_ALIGNMENT) };
    address += content.length;
    offset += place.sizeOnDisk;
    return place;
  });
  const image = Buffer.alloc(offset);
  image.set(stub.subarray(0, symbolsAt)); // the symbols behind the sections are left out
  for (const [index, section] of placed.entries()) {
    const at = sections + (count + index) * SECTION_HEADER_BYTES;
    image.fill(0, at, at + SECTION_HEADER_BYTES);
    image.write(section.name, at, 8, 'ascii');
    image.writeUInt32LE(section.content.length, at + 8);
    image.writeUInt32LE(section.address, at + 12);
    image.writeUInt32LE(section.sizeOnDisk, at + 16);
    image.writeUInt32LE(section.offset, at + 20);
    image.writeUInt32LE(READ_ONLY_DATA, at + 36);
    image.set(section.content, section.offset);
  }
  image.writeUInt16LE(count + added.length, coff + 6);
  image.fill(0, coff + 12, coff + 20); // address and number of symbols
  image.writeUInt32LE(align(address, PAGE), optional + 56); // SizeOfImage
  image.writeUInt32LE(0, optional + 64); // the checksum of the stub no longer applies; firmware ignores it
  return image;
}

/**
 * The digest of an EFI program that firmware measures. It covers all bytes except the fields that signing changes
 * (Microsoft, "Windows Authenticode Portable Executable Signature Format"). The program has no gaps between its
 * sections.
 * @throws ImageError `image-pe`
 */
export function authenticodeDigest(image: Uint8Array): Uint8Array {
  const { view, optional } = layoutOf(image);
  const checksum = optional + 64;
  const certificates = optional + 144;
  const certificatesAt = view.getUint32(certificates, true);
  const end = certificatesAt === 0 ? image.length : certificatesAt;
  return createHash('sha256')
    .update(image.subarray(0, checksum))
    .update(image.subarray(checksum + 4, certificates))
    .update(image.subarray(certificates + 8, end))
    .digest();
}

function layoutOf(image: Uint8Array): PeLayout {
  const view = new DataView(image.buffer, image.byteOffset, image.byteLength);
  if (image.length < 1024 || view.getUint16(0, false) !== 0x4d5a)
    throw new ImageError('image-pe', 'reading EFI program: no MZ header');
  const signature = view.getUint32(PE_OFFSET_AT, true);
  const optional = signature + COFF_BYTES;
  if (
    optional + 240 > image.length ||
    view.getUint32(signature, true) !== SIGNATURE ||
    view.getUint16(optional, true) !== PE32_PLUS
  )
    throw new ImageError('image-pe', 'reading EFI program: no PE32+ header');
  const sections = optional + view.getUint16(signature + 20, true);
  return { view, coff: signature, optional, sections, count: view.getUint16(signature + 6, true) };
}

function align(value: number, to: number): number {
  return Math.ceil(value / to) * to;
}
