import { addSections, type PeSection } from './pe.ts';

/** The parts of a unified kernel image. */
export interface UkiParts {
  /** `linuxx64.efi.stub` of systemd. */
  readonly stub: Uint8Array;
  readonly kernel: Uint8Array;
  readonly initrd: Uint8Array;
  readonly commandLine: string;
  readonly osRelease: string;
}

/** The sections in the order in which systemd-stub 252 measures them (`unified_sections` in its sources). */
export function measuredSections(parts: UkiParts): readonly PeSection[] {
  return [
    { name: '.linux', content: parts.kernel },
    { name: '.osrel', content: Buffer.from(parts.osRelease) },
    { name: '.cmdline', content: Buffer.from(parts.commandLine) },
    { name: '.initrd', content: parts.initrd },
  ];
}

/**
 * Makes the EFI program that contains kernel, initrd and command line. The kernel is last, since it may use the memory behind
 * it. @throws ImageError `image-pe`
 */
export function createUki(parts: UkiParts): Uint8Array {
  const [kernel, ...others] = measuredSections(parts);
  return addSections(parts.stub, [...others, ...(kernel === undefined ? [] : [kernel])]);
}
