import { describe, expect, test } from '@jest/globals';
import { findCoded } from '../errors/index.ts';
import { jsonOf, realHeader, repairChecksums, writeJson } from './fake-header.ts';
import { parseLuksHeader } from './index.ts';
import type { LuksErrorCode } from './errors.ts';

const REAL = realHeader();

/** The error code with which a header is refused; undefined if the header is accepted. */
function refusalOf(disk: Uint8Array): string | undefined {
  try {
    parseLuksHeader(disk);
    return undefined;
  } catch (error) {
    return findCoded(error)?.code ?? String(error);
  }
}

function replaced(from: string | RegExp, to: string): Buffer {
  const disk = realHeader();
  const json = jsonOf(disk);
  const changed = json.replace(from, to);
  if (changed === json) throw new Error(`the header has no ${String(from)}`);
  return writeJson(disk, changed);
}

function bytesAt(offset: number, bytes: Uint8Array, copies: readonly (0 | 1)[] = [0, 1]): Buffer {
  const disk = realHeader();
  for (const copy of copies) disk.set(bytes, copy * 16_384 + offset);
  return repairChecksums(disk);
}

const text = (value: string): Uint8Array => Buffer.from(value, 'latin1');
const SLOT_CIPHER = '"offset":"32768","size":"258048","encryption":"aes-xts-plain64"';
const SEGMENT_CIPHER = '"iv_tweak":"0","encryption":"aes-xts-plain64"';

describe('parseLuksHeader()', () => {
  test('accepts the header that cryptsetup has written', () => {
    const header = parseLuksHeader(REAL);
    expect(header).toMatchObject({ uuid: 'e69a2e66-2bc8-4695-b852-75f129bb9e54', slots: [0, 1] });
    expect(header.cipher.isAuthenticated).toBe(false);
    expect(parseLuksHeader(realHeader('other'))).toMatchObject({ slots: [0] });
  });

  test('accepts slots in any order, as cryptsetup leaves them after a rotation', () => {
    const json = jsonOf(REAL);
    const [, zero, one] = /"keyslots":\{("0":.*?\}\}),("1":.*?\}\})\}/.exec(json) ?? [];
    const disk = writeJson(realHeader(), json.replace(`${zero},${one}`, `${one},${zero}`));
    expect(parseLuksHeader(disk)).toEqual(parseLuksHeader(REAL));
  });

  interface Row {
    readonly name: string;
    readonly given: () => Buffer;
    readonly want: LuksErrorCode;
  }
  const rows: readonly Row[] = [
    { name: 'a short disk', given: () => realHeader().subarray(0, 100_000), want: 'luks-truncated' },
    { name: 'bytes after the header', given: () => Buffer.concat([REAL, text('x')]), want: 'luks-truncated' },
    { name: 'an empty disk', given: () => Buffer.alloc(REAL.length), want: 'luks-magic' },
    {
      name: 'a header without its second copy',
      given: () => bytesAt(0, text('NO'), [1]),
      want: 'luks-magic',
    },
    {
      name: 'a header of LUKS version 1',
      given: () => bytesAt(6, Uint8Array.of(0, 1)),
      want: 'luks-version',
    },
    {
      name: 'a copy that states a wrong size',
      given: () => bytesAt(8, Uint8Array.of(0, 0, 0, 0, 0, 0, 0x80, 0)),
      want: 'luks-size',
    },
    {
      name: 'a copy that states a wrong offset',
      given: () => bytesAt(256, Uint8Array.of(1)),
      want: 'luks-size',
    },
    { name: 'another checksum algorithm', given: () => bytesAt(72, text('sha512')), want: 'luks-checksum' },
    { name: 'a label', given: () => bytesAt(24, text('x')), want: 'luks-label' },
    { name: 'a subsystem', given: () => bytesAt(208, text('x')), want: 'luks-label' },
    { name: 'bytes in the padding', given: () => bytesAt(3000, text('x')), want: 'luks-label' },
    { name: 'a malformed UUID', given: () => bytesAt(168, text('E')), want: 'luks-uuid' },
    {
      name: 'another UUID in one copy',
      given: () => bytesAt(168, text('f'), [1]),
      want: 'luks-copies-differ',
    },
    {
      name: 'an older second copy',
      given: () => bytesAt(23, Uint8Array.of(1), [1]),
      want: 'luks-copies-differ',
    },
    {
      name: 'other metadata in one copy',
      given: () => {
        const disk = realHeader();
        return writeJson(disk, jsonOf(disk).replace('"iterations":1000', '"iterations":1001'), [1]);
      },
      want: 'luks-copies-differ',
    },
    { name: 'text after the metadata', given: () => bytesAt(16_000, text('x')), want: 'luks-json' },
    {
      name: 'a repeated field',
      given: () => replaced('{"keyslots":', '{"config":"","keyslots":'),
      want: 'luks-json',
    },
    {
      name: 'an escape sequence in the metadata',
      given: () => replaced('"dynamic"', '"dynami\\u0063"'),
      want: 'luks-json',
    },
    {
      name: 'a blank between values of the metadata',
      given: () => replaced('"dynamic"', ' "dynamic"'),
      want: 'luks-json',
    },
    {
      name: 'a comment in the metadata',
      given: () => replaced('"dynamic"', '/**/"dynamic"'),
      want: 'luks-json',
    },
    {
      name: 'a number with a fraction',
      given: () => replaced('"sector_size":4096', '"sector_size":4096.0'),
      want: 'luks-json',
    },
    {
      name: 'a number with an exponent',
      given: () => replaced('"sector_size":4096', '"sector_size":4e3'),
      want: 'luks-json',
    },
    {
      name: 'a literal such as null',
      given: () => replaced('"sector_size":4096', '"sector_size":null'),
      want: 'luks-json',
    },
    {
      name: 'an unknown field',
      given: () => replaced('"tokens":', '"extra":"","tokens":'),
      want: 'luks-field',
    },
    { name: 'a missing field', given: () => replaced('"iv_tweak":"0",', ''), want: 'luks-field' },
    {
      name: 'a priority of a slot',
      given: () => replaced('"key_size":64,"af"', '"priority":2,"key_size":64,"af"'),
      want: 'luks-field',
    },
    {
      name: 'the requirement of a reencryption',
      given: () => replaced('"config":{', '"config":{"requirements":{"mandatory":["online-reencrypt-v2"]},'),
      want: 'luks-reencryption',
    },
    {
      name: 'flags in the configuration',
      given: () => replaced('"config":{', '"config":{"flags":["allow-discards"],'),
      want: 'luks-reencryption',
    },
    {
      name: 'a reencryption slot',
      given: () => replaced('"1":{"type":"luks2"', '"1":{"type":"reencrypt"'),
      want: 'luks-reencryption',
    },
    {
      name: 'a segment in reencryption',
      given: () => replaced('"sector_size":4096}', '"sector_size":4096,"flags":["in-reencryption"]}'),
      want: 'luks-reencryption',
    },
    {
      name: 'a null cipher of the data',
      given: () => replaced(SEGMENT_CIPHER, '"iv_tweak":"0","encryption":"cipher_null-ecb"'),
      want: 'luks-cipher',
    },
    {
      name: 'a null cipher of a slot',
      given: () => replaced(SLOT_CIPHER, SLOT_CIPHER.replace('aes-xts-plain64', 'cipher_null-ecb')),
      want: 'luks-cipher',
    },
    {
      name: 'a cipher in CBC mode',
      given: () => replaced(SEGMENT_CIPHER, '"iv_tweak":"0","encryption":"aes-cbc-plain"'),
      want: 'luks-cipher',
    },
    {
      name: 'a shorter key',
      given: () => replaced('"key_size":64,"af"', '"key_size":32,"af"'),
      want: 'luks-cipher',
    },
    {
      name: 'a shorter key of an area',
      given: () => replaced('"aes-xts-plain64","key_size":64}', '"aes-xts-plain64","key_size":32}'),
      want: 'luks-cipher',
    },
    {
      name: 'an integrity algorithm without a key',
      given: () =>
        replaced(
          '"sector_size":4096}',
          '"sector_size":4096,"integrity":{"type":"none","journal_encryption":"none","journal_integrity":"none"}}',
        ),
      want: 'luks-cipher',
    },
    {
      name: 'fewer iterations',
      given: () => replaced('"iterations":1000', '"iterations":999'),
      want: 'luks-kdf',
    },
    {
      name: 'so many iterations that opening the disk would not end',
      given: () => replaced('"iterations":1000', '"iterations":99999999999'),
      want: 'luks-kdf',
    },
    {
      name: 'a key derivation with SHA-1',
      given: () => replaced('"kdf":{"type":"pbkdf2","hash":"sha256"', '"kdf":{"type":"pbkdf2","hash":"sha1"'),
      want: 'luks-kdf',
    },
    {
      name: 'a key derivation with Argon2',
      given: () => replaced('"kdf":{"type":"pbkdf2"', '"kdf":{"type":"argon2i"'),
      want: 'luks-kdf',
    },
    { name: 'an empty salt', given: () => replaced(/"salt":"[^"]*"/, '"salt":""'), want: 'luks-kdf' },
    {
      name: 'a slot of another type',
      given: () => replaced('"1":{"type":"luks2"', '"1":{"type":"other"'),
      want: 'luks-keyslot',
    },
    {
      name: 'a slot whose number is too high',
      given: () => replaced('"1":{"type":"luks2"', '"9":{"type":"luks2"'),
      want: 'luks-keyslot',
    },
    { name: 'fewer stripes', given: () => replaced('"stripes":4000', '"stripes":1'), want: 'luks-keyslot' },
    {
      name: 'overlapping slots',
      given: () => replaced('"offset":"290816"', '"offset":"36864"'),
      want: 'luks-keyslot',
    },
    {
      name: 'a slot whose area is inside the header',
      given: () => replaced('"offset":"32768"', '"offset":"4096"'),
      want: 'luks-keyslot',
    },
    {
      name: 'a slot whose area is inside the data',
      given: () => replaced('"offset":"290816"', '"offset":"16777216"'),
      want: 'luks-keyslot',
    },
    {
      name: 'another sector size',
      given: () => replaced('"sector_size":4096', '"sector_size":512'),
      want: 'luks-segment',
    },
    {
      name: 'another offset of the data',
      given: () => replaced('"offset":"16777216"', '"offset":"16781312"'),
      want: 'luks-segment',
    },
    {
      name: 'a fixed size',
      given: () => replaced('"size":"dynamic"', '"size":"4096"'),
      want: 'luks-segment',
    },
    {
      name: 'another start of the initialization vectors',
      given: () => replaced('"iv_tweak":"0"', '"iv_tweak":"8"'),
      want: 'luks-segment',
    },
    {
      name: 'data in the clear',
      given: () => replaced('"0":{"type":"crypt"', '"0":{"type":"linear"'),
      want: 'luks-segment',
    },
    {
      name: 'a second segment',
      given: () => replaced('"segments":{', '"segments":{"1":{"type":"linear"},'),
      want: 'luks-segment',
    },
    {
      name: 'a digest without a slot',
      given: () => replaced('"keyslots":["0","1"],"segments"', '"keyslots":["0"],"segments"'),
      want: 'luks-digest',
    },
    {
      name: 'a digest without the data',
      given: () => replaced('"segments":["0"]', '"segments":[]'),
      want: 'luks-digest',
    },
    {
      name: 'a second digest',
      given: () => replaced('"digests":{', '"digests":{"1":{},'),
      want: 'luks-digest',
    },
    {
      name: 'a short digest',
      given: () => replaced(/"digest":"[^"]*"/, '"digest":"AAAA"'),
      want: 'luks-digest',
    },
    {
      name: 'a token',
      given: () => replaced('"tokens":{', '"tokens":{"0":{"type":"systemd-tpm2","keyslots":["0"]}'),
      want: 'luks-token',
    },
    { name: 'more space for key slots', given: () => replaced('"4194304"', '"8388608"'), want: 'luks-size' },
  ];

  test.each(rows)('refuses $name: $want', ({ given, want }) => expect(refusalOf(given())).toBe(want));
});
