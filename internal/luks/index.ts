/**
 * Domain layer: the LUKS2 header of a state disk. An own parser, because cryptsetup accepts headers that weaken the
 * encryption: a null cipher, a reencryption to the clear, other segments (CVE-2025-59054, CVE-2025-58356). This parser
 * accepts only the form that `cryptsetup luksFormat` creates with the options of the state disk. `internal/statedisk`
 * keeps the header.
 */
export { CIPHER_ARGUMENTS, formatArguments, openArguments, SLOT_ARGUMENTS } from './cryptsetup-arguments.ts';
export { LAYOUT, PLAIN_CIPHER } from './layout.ts';
export { LuksError } from './errors.ts';
export { parseLuksHeader } from './parse-header.ts';
