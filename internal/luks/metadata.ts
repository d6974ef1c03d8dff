import { refuse, type LuksErrorCode } from './errors.ts';
import {
  AUTHENTICATED_CIPHER,
  LAYOUT,
  MAX_SLOTS,
  ONLY_ID,
  PLAIN_CIPHER,
  SLOT_CIPHER,
  SLOT_KDF,
  slotAreaBytes,
  STRIPES,
  type DiskCipher,
} from './layout.ts';
import { isObject, type PlainJson } from './plain-json.ts';

const BASE64_32 = /^[A-Za-z0-9+/]{43}=$/;

/** The part of the metadata that may differ between state disks. */
export interface Metadata {
  readonly cipher: DiskCipher;
  /** Numbers of the key slots, ascending. */
  readonly slots: readonly number[];
}

/**
 * Checks the metadata against the one form that this program creates: every field must exist, and no other field may
 * exist.
 * @throws LuksError
 */
export function checkMetadata(json: PlainJson): Metadata {
  const { keyslots, tokens, segments, digests, config } = fields(json, [
    'keyslots',
    'tokens',
    'segments',
    'digests',
    'config',
  ]);
  checkConfig(config);
  const cipher = checkSegments(segments);
  const slots = checkKeyslots(keyslots, cipher);
  checkDigests(digests, slots);
  if (!isObject(tokens) || tokens.size !== 0) refuse('luks-token', 'a token');
  return { cipher, slots };
}

/** Features that an older cryptsetup would not understand, e.g. a reencryption, are named in `requirements`. */
function checkConfig(config: PlainJson): void {
  if (isObject(config) && (config.has('requirements') || config.has('flags')))
    refuse('luks-reencryption', 'requirements or flags', [...config.keys()]);
  const { json_size: json, keyslots_size: slots } = fields(config, ['json_size', 'keyslots_size']);
  same(json, String(LAYOUT.copyBytes - LAYOUT.binaryBytes), 'luks-size', 'json_size');
  same(slots, String(LAYOUT.slotsBytes), 'luks-size', 'keyslots_size');
}

function checkSegments(segments: PlainJson): DiskCipher {
  const segment = only(segments, 'luks-segment', 'segments');
  if (isObject(segment) && segment.has('flags')) refuse('luks-reencryption', 'flags of a segment');
  const isAuthenticated = isObject(segment) && segment.has('integrity');
  const cipher = isAuthenticated ? AUTHENTICATED_CIPHER : PLAIN_CIPHER;
  const names = ['type', 'offset', 'size', 'iv_tweak', 'encryption', 'sector_size'];
  const found = fields(segment, isAuthenticated ? [...names, 'integrity'] : names);
  same(found['type'], 'crypt', 'luks-segment', 'type');
  same(found['offset'], String(LAYOUT.dataOffset), 'luks-segment', 'offset');
  same(found['size'], 'dynamic', 'luks-segment', 'size');
  same(found['iv_tweak'], '0', 'luks-segment', 'iv_tweak');
  same(found['sector_size'], LAYOUT.sectorBytes, 'luks-segment', 'sector_size');
  same(found['encryption'], cipher.encryption, 'luks-cipher', 'cipher of the data');
  if (!isAuthenticated) return cipher;
  const integrity = fields(found['integrity'], ['type', 'journal_encryption', 'journal_integrity']);
  same(integrity['type'], cipher.integrity, 'luks-cipher', 'integrity');
  same(integrity['journal_encryption'], 'none', 'luks-cipher', 'journal encryption');
  same(integrity['journal_integrity'], 'none', 'luks-cipher', 'journal integrity');
  return cipher;
}

function checkKeyslots(keyslots: PlainJson, cipher: DiskCipher): readonly number[] {
  if (!isObject(keyslots)) refuse('luks-keyslot', 'no key slots');
  const slots = [...keyslots].map(([name, slot]) => {
    const number = /^[0-7]$/.test(name) ? Number(name) : refuse('luks-keyslot', 'number', name);
    return { number, area: checkKeyslot(slot, cipher) };
  });
  if (slots.length === 0 || slots.length > MAX_SLOTS) refuse('luks-keyslot', 'count', slots.length);
  const offsets = slots.map(({ area }) => area).toSorted((a, b) => a - b);
  const size = slotAreaBytes(cipher.keyBytes);
  const overlap = offsets.some((offset, at) => at > 0 && offset < (offsets[at - 1] ?? 0) + size);
  if (overlap) refuse('luks-keyslot', 'areas overlap', offsets);
  return slots.map(({ number }) => number).toSorted((a, b) => a - b);
}

/** Returns the offset of the area of the slot. */
function checkKeyslot(slot: PlainJson, cipher: DiskCipher): number {
  if (isObject(slot) && slot.get('type') === 'reencrypt') refuse('luks-reencryption', 'a key slot');
  const found = fields(slot, ['type', 'key_size', 'af', 'area', 'kdf']);
  same(found['type'], 'luks2', 'luks-keyslot', 'type');
  same(found['key_size'], cipher.keyBytes, 'luks-cipher', 'key size of a slot');
  const af = fields(found['af'], ['type', 'stripes', 'hash']);
  same(af['type'], 'luks1', 'luks-keyslot', 'splitter');
  same(af['stripes'], STRIPES, 'luks-keyslot', 'stripes');
  same(af['hash'], 'sha256', 'luks-keyslot', 'hash of the anti-forensic splitter');
  checkKdf(found['kdf'], ['type', 'hash', 'iterations', 'salt']);
  const area = fields(found['area'], ['type', 'offset', 'size', 'encryption', 'key_size']);
  same(area['type'], 'raw', 'luks-keyslot', 'area');
  same(area['encryption'], SLOT_CIPHER.encryption, 'luks-cipher', 'cipher of a slot');
  same(area['key_size'], SLOT_CIPHER.keyBytes, 'luks-cipher', 'key size of an area');
  const size = slotAreaBytes(cipher.keyBytes);
  same(area['size'], String(size), 'luks-keyslot', 'size of an area');
  const offset = Number(matches(area['offset'], /^[1-9]\d{0,9}$/) ? area['offset'] : Number.NaN);
  const isInside = offset >= LAYOUT.slotsOffset && offset + size <= LAYOUT.slotsOffset + LAYOUT.slotsBytes;
  if (!isInside || offset % 4096 !== 0) refuse('luks-keyslot', 'offset of an area', area['offset']);
  return offset;
}

/** Checks a PBKDF2 and returns the checked fields. */
function checkKdf(kdf: PlainJson | undefined, names: readonly string[]): Record<string, PlainJson> {
  const found = fields(kdf, names, 'luks-kdf');
  same(found['type'], SLOT_KDF.type, 'luks-kdf', 'type');
  same(found['hash'], SLOT_KDF.hash, 'luks-kdf', 'hash');
  const { iterations, salt } = found;
  const { minIterations, maxIterations } = SLOT_KDF;
  if (typeof iterations !== 'number' || iterations < minIterations || iterations > maxIterations)
    refuse('luks-kdf', 'iterations', iterations);
  if (!matches(salt, BASE64_32)) refuse('luks-kdf', 'salt', salt);
  return found;
}

function checkDigests(digests: PlainJson, slots: readonly number[]): void {
  const digest = only(digests, 'luks-digest', 'digests');
  const names = ['type', 'keyslots', 'segments', 'hash', 'iterations', 'salt', 'digest'];
  const found = checkKdf(digest, names);
  same(numbers(found['keyslots']), slots.join(','), 'luks-digest', 'slots');
  same(numbers(found['segments']), '0', 'luks-digest', 'segments');
  if (!matches(found['digest'], BASE64_32)) refuse('luks-digest', 'digest', found['digest']);
}

/** The only entry, with the number 0, of a group. */
function only(group: PlainJson, code: LuksErrorCode, what: string): PlainJson {
  const entry = isObject(group) && group.size === 1 ? group.get(ONLY_ID) : undefined;
  return entry ?? refuse(code, `not exactly one of ${what}`, isObject(group) ? [...group.keys()] : undefined);
}

/** The fields of an object, which has exactly these names. */
function fields<Name extends string>(
  value: PlainJson | undefined,
  names: readonly Name[],
  code: LuksErrorCode = 'luks-field',
): Record<Name, PlainJson> {
  if (!isObject(value)) refuse(code, 'not an object');
  const known: readonly string[] = names;
  const unknown = [...value.keys()].find((name) => !known.includes(name));
  if (unknown !== undefined) refuse(code, 'an unknown field', unknown);
  const entries = names.map((name) => [name, value.get(name) ?? refuse(code, 'a missing field', name)]);
  return Object.fromEntries(entries) as Record<Name, PlainJson>;
}

/** "0,1" of a list of numbers as text, ascending. A value of another type is no number. */
function numbers(list: PlainJson | undefined): string {
  if (!Array.isArray(list)) return '';
  return list
    .map((each) => (typeof each === 'string' ? each : '?'))
    .sort()
    .join(',');
}

function matches(found: PlainJson | undefined, pattern: RegExp): boolean {
  return typeof found === 'string' && pattern.test(found);
}

function same(
  found: PlainJson | undefined,
  wanted: PlainJson | undefined,
  code: LuksErrorCode,
  what: string,
): void {
  if (found !== wanted) refuse(code, what, isObject(found) ? 'an object' : found);
}
