import { describe, expect, test } from '@jest/globals';
import { findCoded } from '../errors/index.ts';
import { Secret } from '../secret/index.ts';
import { fakeHeader, jsonOf, NODE_SHARE, realHeader, repairChecksums, writeJson } from './fake-header.ts';
import { parseLuksHeader, verifyHeaderMac } from './index.ts';
import type { LuksErrorCode } from './errors.ts';

/** The header that a disk with 32 KiB of headers would have: 16 MiB are slow to copy 10,000 times. */
const REAL = realHeader();

/** The code with which a disk is refused; undefined: it is accepted as that of the machine. */
function refusalOf(disk: Uint8Array): string | undefined {
  try {
    verifyHeaderMac(parseLuksHeader(disk), NODE_SHARE);
    return undefined;
  } catch (error) {
    return findCoded(error)?.code ?? String(error);
  }
}

function replaced(from: string | RegExp, to: string): Buffer {
  const disk = fakeHeader();
  const json = jsonOf(disk);
  const changed = json.replace(from, to);
  if (changed === json) throw new Error(`the header has no ${String(from)}`);
  return writeJson(disk, changed);
}

function bytesAt(offset: number, bytes: Uint8Array, copies: readonly (0 | 1)[] = [0, 1]): Buffer {
  const disk = fakeHeader();
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
    expect(header.token).toEqual(
      new Map<string, unknown>([
        ['version', 1],
        ['node', 'c2VhbGVk'],
      ]),
    );
    expect(parseLuksHeader(realHeader('other'))).toMatchObject({ slots: [0], token: undefined });
  });

  test('accepts slots in any order, as cryptsetup leaves them after a rotation', () => {
    const json = jsonOf(REAL);
    const [, zero, one] = /"keyslots":\{("0":.*?\}\}),("1":.*?\}\})\}/.exec(json) ?? [];
    const disk = writeJson(realHeader(), json.replace(`${zero},${one}`, `${one},${zero}`));
    expect(parseLuksHeader(disk).canonical).toBe(parseLuksHeader(REAL).canonical);
  });

  interface Row {
    readonly name: string;
    readonly given: () => Buffer;
    readonly want: LuksErrorCode;
  }
  const rows: readonly Row[] = [
    { name: 'a short disk', given: () => fakeHeader().subarray(0, 100_000), want: 'luks-truncated' },
    { name: 'an empty disk', given: () => Buffer.alloc(16 * 1024 * 1024), want: 'luks-magic' },
    { name: 'no second copy', given: () => bytesAt(0, text('NO'), [1]), want: 'luks-magic' },
    { name: 'LUKS1', given: () => bytesAt(6, Uint8Array.of(0, 1)), want: 'luks-version' },
    {
      name: 'other size',
      given: () => bytesAt(8, Uint8Array.of(0, 0, 0, 0, 0, 0, 0x80, 0)),
      want: 'luks-size',
    },
    { name: 'other offset', given: () => bytesAt(256, Uint8Array.of(1)), want: 'luks-size' },
    { name: 'other checksum', given: () => bytesAt(72, text('sha512')), want: 'luks-checksum' },
    { name: 'a label', given: () => bytesAt(24, text('x')), want: 'luks-label' },
    { name: 'a subsystem', given: () => bytesAt(208, text('x')), want: 'luks-label' },
    { name: 'bytes in the padding', given: () => bytesAt(3000, text('x')), want: 'luks-label' },
    { name: 'a malformed UUID', given: () => bytesAt(168, text('E')), want: 'luks-uuid' },
    { name: 'other UUID in one copy', given: () => bytesAt(168, text('f'), [1]), want: 'luks-copies-differ' },
    {
      name: 'an older second copy',
      given: () => bytesAt(23, Uint8Array.of(1), [1]),
      want: 'luks-copies-differ',
    },
    {
      name: 'other metadata in one copy',
      given: () => {
        const disk = fakeHeader();
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
    { name: 'an escape', given: () => replaced('"dynamic"', '"dynami\\u0063"'), want: 'luks-json' },
    { name: 'a blank', given: () => replaced('"dynamic"', ' "dynamic"'), want: 'luks-json' },
    { name: 'a comment', given: () => replaced('"dynamic"', '/**/"dynamic"'), want: 'luks-json' },
    {
      name: 'a fraction',
      given: () => replaced('"sector_size":4096', '"sector_size":4096.0'),
      want: 'luks-json',
    },
    {
      name: 'an exponent',
      given: () => replaced('"sector_size":4096', '"sector_size":4e3'),
      want: 'luks-json',
    },
    {
      name: 'a literal',
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
      name: 'flags',
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
      name: 'CBC',
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
      name: 'an integrity without a key',
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
      name: 'iterations that would take for ever',
      given: () => replaced('"iterations":1000', '"iterations":99999999999'),
      want: 'luks-kdf',
    },
    {
      name: 'SHA-1',
      given: () => replaced('"kdf":{"type":"pbkdf2","hash":"sha256"', '"kdf":{"type":"pbkdf2","hash":"sha1"'),
      want: 'luks-kdf',
    },
    {
      name: 'Argon2',
      given: () => replaced('"kdf":{"type":"pbkdf2"', '"kdf":{"type":"argon2i"'),
      want: 'luks-kdf',
    },
    { name: 'an empty salt', given: () => replaced(/"salt":"[^"]*"/, '"salt":""'), want: 'luks-kdf' },
    {
      name: 'a foreign slot',
      given: () => replaced('"1":{"type":"luks2"', '"1":{"type":"other"'),
      want: 'luks-keyslot',
    },
    {
      name: 'an impossible slot',
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
      name: 'a slot in the header',
      given: () => replaced('"offset":"32768"', '"offset":"4096"'),
      want: 'luks-keyslot',
    },
    {
      name: 'a slot in the data',
      given: () => replaced('"offset":"290816"', '"offset":"16777216"'),
      want: 'luks-keyslot',
    },
    {
      name: 'other sector size',
      given: () => replaced('"sector_size":4096', '"sector_size":512'),
      want: 'luks-segment',
    },
    {
      name: 'other data offset',
      given: () => replaced('"offset":"16777216"', '"offset":"16781312"'),
      want: 'luks-segment',
    },
    {
      name: 'a fixed size',
      given: () => replaced('"size":"dynamic"', '"size":"4096"'),
      want: 'luks-segment',
    },
    { name: 'other IV', given: () => replaced('"iv_tweak":"0"', '"iv_tweak":"8"'), want: 'luks-segment' },
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
      name: 'a foreign token',
      given: () => replaced('"type":"cluster-state-disk"', '"type":"systemd-tpm2"'),
      want: 'luks-token',
    },
    {
      name: 'a second token',
      given: () => replaced('"tokens":{', '"tokens":{"1":{"type":"luks2-keyring","keyslots":["0"]},'),
      want: 'luks-token',
    },
    { name: 'more key space', given: () => replaced('"16744448"', '"33521664"'), want: 'luks-size' },
    { name: 'the header of another volume', given: () => realHeader('other'), want: 'luks-mac' },
    { name: 'a header without a MAC', given: () => realHeader(), want: 'luks-mac' },
    { name: 'another salt of a slot', given: () => replaced(/"salt":"./, '"salt":"Z'), want: 'luks-mac' },
    {
      name: 'other content of the token',
      given: () => replaced('"c2VhbGVk"', '"c2VhbGVl"'),
      want: 'luks-mac',
    },
  ];

  test('accepts the header of the machine', () => expect(refusalOf(fakeHeader())).toBeUndefined());

  test.each(rows)('refuses $name: $want', ({ given, want }) => expect(refusalOf(given())).toBe(want));

  test('refuses the header of the machine under the share of another TPM', () => {
    const other = new Secret(new Uint8Array(32).fill(8));
    expect(() => verifyHeaderMac(parseLuksHeader(fakeHeader()), other)).toThrow(
      expect.objectContaining({ code: 'luks-mac' }),
    );
  });
});

describe('10,000 changes of a header', () => {
  test('are all refused, each with a code', () => {
    const given = fakeHeader();
    const json = jsonOf(given);
    const next = seeded(22);
    const codes = new Map<string, number>();
    for (let count = 0; count < 10_000; count++) {
      const how = CHANGES[next(CHANGES.length)] ?? CHANGES[0];
      const code = how === undefined ? undefined : changedAndJudged(given, json, how, next);
      if (code === undefined) throw new Error(`change ${count} (${how?.name}) was accepted`);
      expect(code).toMatch(/^luks-/);
      codes.set(code, (codes.get(code) ?? 0) + 1);
    }
    // Changes of all kinds have been refused for many reasons, not all by the same check.
    expect([...codes.keys()].length).toBeGreaterThan(12);
  });
});

type Next = (below: number) => number;

/** Changes the headers in place, judges them and restores them: copying 16 MiB 10,000 times would take minutes. */
function changedAndJudged(given: Buffer, json: string, how: Change, next: Next): string | undefined {
  const saved = Buffer.from(given.subarray(0, 32_768));
  how.change(given, json, next);
  const isSame = saved.equals(given.subarray(0, 32_768));
  const code = isSame ? 'luks-unchanged' : refusalOf(given);
  given.set(saved);
  return code;
}

interface Change {
  readonly name: string;
  readonly change: (disk: Buffer, json: string, next: Next) => void;
}

const CHANGES: readonly Change[] = [
  {
    name: 'one bit, with its checksum left',
    change: (disk, _, next) => flip(disk, next(32_768), next),
  },
  {
    name: 'one bit of the JSON of one copy, with a new checksum',
    change: (disk, json, next) => {
      const copy = next(2) === 0 ? 0 : 1;
      flip(disk, copy * 16_384 + 4096 + next(json.length), next);
      repairChecksums(disk, [copy]);
    },
  },
  {
    name: 'one bit of the JSON of both copies, with new checksums',
    change: (disk, json, next) => {
      const [at, bit] = [4096 + next(json.length), 1 << next(8)];
      for (const copy of [0, 16_384]) disk[copy + at] = (disk[copy + at] ?? 0) ^ bit;
      repairChecksums(disk);
    },
  },
  {
    name: 'some text of both copies left out',
    change: (disk, json, next) => {
      const [at, size] = [next(json.length), 1 + next(60)];
      writeJson(disk, json.slice(0, at) + json.slice(at + size));
    },
  },
  {
    name: 'some text of both copies moved',
    change: (disk, json, next) => {
      const [from, to, size] = [next(json.length), next(json.length), 1 + next(60)];
      writeJson(disk, json.slice(0, to) + json.slice(from, from + size) + json.slice(to));
    },
  },
  {
    name: 'a value of both copies replaced',
    change: (disk, json, next) => {
      const values = [...json.matchAll(/"[^"]*"|\d+/g)];
      const [first, second] = [values[next(values.length)], values[next(values.length)]];
      if (first === undefined || second === undefined) return;
      writeJson(disk, json.slice(0, first.index) + second[0] + json.slice(first.index + first[0].length));
    },
  },
  {
    name: 'one bit of the binary part of both copies, with new checksums',
    change: (disk, _, next) => {
      // Not the sequence number and the salt of a copy: they carry no meaning, and every write of the header changes them.
      const at = [next(16), 24 + next(80), 168 + next(280), 512 + next(3584)][next(4)] ?? 0;
      const bit = 1 << next(8);
      for (const copy of [0, 16_384]) disk[copy + at] = (disk[copy + at] ?? 0) ^ bit;
      repairChecksums(disk);
    },
  },
];

function flip(disk: Buffer, at: number, next: Next): void {
  disk[at] = (disk[at] ?? 0) ^ (1 << next(8));
}

/** Marsaglia's xorshift: the same changes in each run. */
function seeded(seed: number): Next {
  let state = seed;
  return (below) => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) % below;
  };
}
