import { createHash } from 'node:crypto';
import { describe, expect, test } from '@jest/globals';
import { findCoded } from '../errors/index.ts';
import { jsonOf, realHeader, repairChecksums, writeJson } from '../luks/fake-header.ts';
import { parseLuksHeader } from '../luks/index.ts';
import { Secret } from '../secret/index.ts';
import { parseRecord } from './disk-record.ts';
import {
  diskStateOf,
  encodeFormatting,
  encodeReady,
  isAheadOfCounter,
  isSameSource,
  PREAMBLE_BYTES,
  provenSource,
  recordableEndpoints,
  recordKey,
  SLOT_BYTES,
  slotKey,
  type RecordContent,
  type ShareSource,
} from './index.ts';

const share = (byte: number): Secret<Uint8Array> => new Secret(new Uint8Array(32).fill(byte));
const UUID = 'e69a2e66-2bc8-4695-b852-75f129bb9e54';
const KEY = recordKey(share(1), UUID);
const CONTENT: RecordContent = {
  uuid: UUID,
  nodeShare: Buffer.from('sealed node share'),
  clusterShare: Buffer.from('sealed cluster share'),
  recovery: { kind: 'key', sealed: new Uint8Array(Buffer.from('age-encryption.org/v1')) },
  consoleRecovery: { diskKey: new Uint8Array(32).fill(3), wrapped: [new Uint8Array(48).fill(4)] },
  recipientsMac: new Uint8Array(32).fill(5),
  approval: Buffer.from('{}'),
  registers: new Map([[7, new Uint8Array(32).fill(7)]]),
  // In a real header, the area of the key slots has no zeros.
  header: realHeader().fill(9, 32_768),
};
const RECORD = encodeReady(5n, CONTENT, KEY);
const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');

/** A record, padded with zeros to the length of a slot. */
function padded(record: Uint8Array): Uint8Array {
  const slot = Buffer.alloc(SLOT_BYTES);
  slot.set(record);
  return slot;
}

function disk(first: Uint8Array, second: Uint8Array): Uint8Array {
  return Buffer.concat([padded(first), padded(second)]);
}

/** A changed record with a matching checksum, which everybody can compute. */
function withChecksum(record: Uint8Array): Buffer {
  const bytes = Buffer.from(record);
  const body = bytes.subarray(4096, 4096 + bytes.readUInt32LE(24) + CONTENT.header.length);
  createHash('sha256').update(bytes.subarray(0, 32)).update(body).digest().copy(bytes, 32);
  return bytes;
}

/** An intact record that needs more owners than there are. */
function unknownRecord(sequence: bigint): Buffer {
  const shares = [1, 2].map(() => ({ sealed: new Uint8Array(9), digest: new Uint8Array(32) }));
  const recovery = { kind: 'shares', threshold: 2, shares } as const;
  const record = Buffer.from(encodeReady(sequence, { ...CONTENT, recovery }, KEY));
  record.write('4', record.indexOf('"threshold":2') + '"threshold":'.length);
  return withChecksum(record);
}

const NOTHING = new Uint8Array();
const CUT = RECORD.subarray(0, 100_000);

describe('slotKey()', () => {
  test('changes with each share, with the order of the shares and with the UUID of the disk', () => {
    const keys = [
      slotKey({ node: share(1), cluster: share(2) }, UUID),
      slotKey({ node: share(2), cluster: share(1) }, UUID),
      slotKey({ node: share(1), cluster: share(1) }, UUID),
      slotKey({ node: share(1), cluster: share(3) }, UUID),
      slotKey({ node: share(3), cluster: share(2) }, UUID),
      slotKey({ node: share(1), cluster: share(2) }, UUID.replace('e', 'f')),
      recordKey(share(1), UUID),
    ];
    expect(new Set(keys.map((key) => hex(key.reveal()))).size).toBe(keys.length);
    expect(hex(keys[0]?.reveal() ?? NOTHING)).toMatchInlineSnapshot(
      `"83055518df7e195eacf323093299a6f3cd37e409fc70032c5dd233b8242fe8c9"`,
    );
  });

  test.each([31, 33, 0])('refuses a share of %i bytes', (length) => {
    const short = new Secret(new Uint8Array(length));
    expect(() => slotKey({ node: share(1), cluster: short }, UUID)).toThrow(RangeError);
    expect(() => recordKey(short, UUID)).toThrow(RangeError);
  });
});

describe('encodeReady()', () => {
  const bytes = (length: number): Uint8Array => new Uint8Array(length);
  const shareOf = (length = 32) => ({ sealed: bytes(9), digest: bytes(length) });
  const shared = (threshold: number, ...shares: ReturnType<typeof shareOf>[]) => ({
    recovery: { kind: 'shares', threshold, shares } as const,
  });
  const forConsole = (diskKey: number, ...wrapped: number[]) => ({
    consoleRecovery: { diskKey: bytes(diskKey), wrapped: wrapped.map(bytes) },
  });

  test.each<[string, Partial<RecordContent>]>([
    ['more owners needed than there are', shared(3, shareOf(), shareOf())],
    ['a digest of 31 bytes', shared(2, shareOf(), shareOf(31))],
    ['two and a half owners needed', shared(2.5, shareOf(), shareOf(), shareOf())],
    ['a key of the disk of 31 bytes', forConsole(31, 48)],
    ['a wrapped recovery key of 47 bytes', forConsole(32, 48, 47)],
    ['no wrapped recovery key', forConsole(32)],
    ['a MAC of 31 bytes over its recipients', { recipientsMac: bytes(31) }],
    ['a digest of an order of 31 bytes', { rotation: bytes(31) }],
    ['a register of 31 bytes', { registers: new Map([[7, bytes(31)]]) }],
    ['more metadata than a record has', { approval: bytes(65_536) }],
  ])('makes no record with %s, since it would replace a good one', (_, changed) => {
    expect(() => encodeReady(5n, { ...CONTENT, ...changed }, KEY)).toThrow(RangeError);
  });
});

describe('parseRecord()', () => {
  test('returns the content that encodeReady() encoded', () => {
    const found = parseRecord(padded(RECORD));
    if (found.kind !== 'ready') throw new Error(found.kind);
    expect(found.sequence).toBe(5n);
    const { header, ...rest } = found.content;
    expect(Buffer.from(header).equals(CONTENT.header)).toBe(true);
    expect(rest).toEqual({
      uuid: UUID,
      nodeShare: new Uint8Array(CONTENT.nodeShare),
      clusterShare: new Uint8Array(Buffer.from('sealed cluster share')),
      recovery: CONTENT.recovery,
      consoleRecovery: CONTENT.consoleRecovery,
      recipientsMac: CONTENT.recipientsMac,
      approval: new Uint8Array(Buffer.from('{}')),
      registers: CONTENT.registers,
    });
    expect(() => found.verify(KEY)).not.toThrow();
  });

  test('takes a record of an earlier release, which has nothing for the console', () => {
    const earlier = { consoleRecovery: undefined, recipientsMac: undefined };
    const found = parseRecord(padded(encodeReady(5n, { ...CONTENT, ...earlier }, KEY)));
    expect(found).toMatchObject({ kind: 'ready', content: earlier });
  });

  const bytes = (length: number, value: number): Uint8Array => new Uint8Array(length).fill(value);
  const shareOf = (value: number, length = 32) => ({ sealed: bytes(9, value), digest: bytes(length, value) });
  const SHARES = { kind: 'shares' as const, threshold: 2, shares: [shareOf(1), shareOf(2), shareOf(3)] };

  test('returns the shares of several owners', () => {
    const consoleRecovery = { diskKey: bytes(32, 3), wrapped: [bytes(49, 4), bytes(49, 5), bytes(49, 6)] };
    const found = parseRecord(
      padded(encodeReady(5n, { ...CONTENT, recovery: SHARES, consoleRecovery }, KEY)),
    );
    expect(found).toMatchObject({ kind: 'ready', content: { recovery: SHARES, consoleRecovery } });
  });

  test('returns the digest of the order that made the keys', () => {
    const rotation = bytes(32, 6);
    const found = parseRecord(padded(encodeReady(5n, { ...CONTENT, rotation }, KEY)));
    expect(found).toMatchObject({ kind: 'ready', content: { rotation } });
  });

  test('does not know a record with content of another form', () => {
    expect(parseRecord(padded(unknownRecord(7n)))).toEqual({ kind: 'unknown', sequence: 7n });
  });

  const SOURCE: ShareSource = {
    clusterId: 'c0'.repeat(16),
    clusterCaPem: '-----BEGIN CERTIFICATE-----',
    caGeneration: 1,
    floors: { owners: { serial: 3, sha256: 'ab'.repeat(32) }, signedAfterMs: 5 },
    controlPlanes: [{ nodeId: 'node-1', host: '192.0.2.1' }],
    endpoints: ['c1.example.org:9090', '[2001:db8::2]:9094'],
    proven: ['192.0.2.1:9090'],
  };

  test('returns where to ask for the cluster share that the machine does not keep', () => {
    const record = encodeReady(5n, { ...CONTENT, clusterShare: SOURCE }, KEY);
    const found = parseRecord(padded(record));
    expect(found).toMatchObject({ kind: 'ready', content: { clusterShare: SOURCE } });
    const elsewhere = encodeReady(5n, { ...CONTENT, clusterShare: { ...SOURCE, caGeneration: 2 } }, KEY);
    const moved = Buffer.concat([elsewhere.subarray(0, 64), record.subarray(64, 96), elsewhere.subarray(96)]);
    const other = parseRecord(padded(moved));
    if (other.kind !== 'ready') throw new Error(other.kind);
    expect(() => other.verify(KEY)).toThrow(expect.objectContaining({ code: 'statedisk-changed' }));
  });

  test.each([
    ['a malformed cluster', { clusterId: 'c0ffee' }],
    ['no control plane', { controlPlanes: [] }],
    ['a host name', { controlPlanes: [{ nodeId: 'node-1', host: 'c1.example.org' }] }],
    ['no CA', { clusterCaPem: '' }],
    ['something unknown', { share: 'AAAA' }],
    ['an endpoint without a port', { endpoints: ['192.0.2.1'] }],
    ['five endpoints that gave the share', { proven: [1, 2, 3, 4, 5].map((port) => `192.0.2.1:${port}`) }],
  ])('makes no record whose cluster share is with %s', (_, changed) => {
    const clusterShare = { ...SOURCE, ...changed };
    expect(() => encodeReady(5n, { ...CONTENT, clusterShare }, KEY)).toThrow(RangeError);
  });

  test('isSameSource() ignores the order of the control planes, and nothing else', () => {
    const two = [...SOURCE.controlPlanes, { nodeId: 'node-2', host: '192.0.2.2' }];
    const both = { ...SOURCE, controlPlanes: two };
    expect(isSameSource(both, { ...SOURCE, controlPlanes: two.toReversed() })).toBe(true);
    for (const other of [
      ...[SOURCE, { ...both, caGeneration: 2 }, { ...both, clusterCaPem: 'x' }],
      ...[
        { ...both, floors: {} },
        { ...both, endpoints: [] },
      ],
    ])
      expect(isSameSource(both, other)).toBe(false);
    const unproven: ShareSource = { ...both, proven: [] };
    expect(isSameSource(both, unproven)).toBe(true);
  });

  test('a source keeps the newest four endpoints that gave the share, and endpoints that a record can hold', () => {
    const { proven } = provenSource(SOURCE, { now: ['a:1', 'b:1'], before: ['b:1', 'c:1', 'd:1', 'e:1'] });
    expect(proven).toEqual(['a:1', 'b:1', 'c:1', 'd:1']);
    const many = ['192.0.2.1', 'a b:1', ...Array.from({ length: 20 }, (_, at) => `c${at}:9090`)];
    expect(recordableEndpoints([...many, ...many])).toEqual(many.slice(2, 18));
  });

  test.each([
    ['a MAC of another TPM', recordKey(share(2), UUID), RECORD],
    ['a changed sequence', KEY, withChecksum(changed(RECORD, 16))],
    ['a changed sealed share', KEY, withChecksum(changed(RECORD, 4096 + 80))],
    ['a changed key slot', KEY, withChecksum(changed(RECORD, RECORD.length - 10))],
  ])('refuses a record with %s', (_, key, record) => {
    const found = parseRecord(padded(record));
    if (found.kind !== 'ready') throw new Error(found.kind);
    expect(() => found.verify(key)).toThrow(expect.objectContaining({ code: 'statedisk-changed' }));
  });

  test('reports a record as damaged when any byte is changed', () => {
    for (let at = 0; at < RECORD.length; at += at < 5000 ? 197 : 900_009) {
      if ((at >= 64 && at < 96) || (at >= PREAMBLE_BYTES && at < 4096)) continue; // MAC; not used
      expect(parseRecord(padded(changed(RECORD, at)))).toMatchObject({ kind: 'damaged' });
    }
  });

  test('fits the record of a formatting into one sector, which a crash cannot write in part', () => {
    expect(encodeFormatting()).toHaveLength(512);
    expect(parseRecord(padded(encodeFormatting()))).toEqual({ kind: 'formatting' });
  });
});

describe('diskStateOf()', () => {
  const later = encodeReady(6n, CONTENT, KEY);
  test.each([
    ['an empty disk', disk(NOTHING, NOTHING), { kind: 'blank' }],
    ['a disk whose formatting was interrupted', disk(encodeFormatting(), NOTHING), { kind: 'formatting' }],
    [
      'a disk whose formatting was interrupted in its last write',
      disk(encodeFormatting(), CUT),
      { kind: 'formatting' },
    ],
    [
      'a disk that was formatted and still has the record of its formatting',
      disk(encodeFormatting(), RECORD),
      { slot: 1 },
    ],
    ['a disk with one record in its first slot', disk(RECORD, NOTHING), { kind: 'ready', slot: 0 }],
    [
      'a disk with a record in its first slot and a newer record in its second slot',
      disk(RECORD, later),
      { slot: 1, record: { sequence: 6n } },
    ],
    [
      'a disk with a newer record in its first slot',
      disk(later, RECORD),
      { slot: 0, record: { sequence: 6n } },
    ],
    ['a disk whose newer record is incomplete', disk(RECORD, later.subarray(0, 2_000_000)), { slot: 0 }],
    ['a disk whose newer record has only 100 bytes', disk(later.subarray(0, 100), RECORD), { slot: 1 }],
  ])('finds the current record of %s', (_, start, want) => expect(diskStateOf(start)).toMatchObject(want));

  test.each([
    ['alone', disk(unknownRecord(5n), NOTHING)],
    ['newer than the other one', disk(RECORD, unknownRecord(6n))],
    ['beside an incomplete write', disk(CUT, unknownRecord(5n))],
  ])(
    'names a record of a newer release that is %s, and does not advise to overwrite the disk',
    (_, start) => {
      expect(() => diskStateOf(start)).toThrow(
        expect.objectContaining({
          code: 'statedisk-unknown',
          fix: expect.stringContaining('Do not overwrite'),
        }),
      );
    },
  );

  test('takes a record that is newer than one of another release', () => {
    expect(diskStateOf(disk(unknownRecord(4n), RECORD))).toMatchObject({ kind: 'ready', slot: 1 });
  });

  test.each([
    ['a disk with a file system', Buffer.from('ext4'), 'statedisk-foreign'],
    ['a disk with a LUKS header at its beginning', realHeader(), 'statedisk-foreign'],
    ['a disk with only an incomplete record', CUT, 'statedisk-damaged'],
    ['a disk with a record of a later version', changed(RECORD, 8), 'statedisk-damaged'],
  ])('refuses %s', (_, first, code) => {
    expect(() => diskStateOf(disk(first, NOTHING))).toThrow(expect.objectContaining({ code }));
  });
});

describe('isAheadOfCounter()', () => {
  test('accepts the current record, and a record after which a crash prevented the increment of the counter', () => {
    expect(isAheadOfCounter(5n, 5n)).toBe(false);
    expect(isAheadOfCounter(6n, 5n)).toBe(true);
  });

  test.each([
    ['an earlier copy of the disk', 4n, 5n],
    ['an earlier state of the TPM', 7n, 5n],
    ['a TPM without the counter', 5n, undefined],
  ])('refuses %s', (_, sequence, counter) => {
    expect(() => isAheadOfCounter(sequence, counter)).toThrow(
      expect.objectContaining({ code: 'statedisk-rolled-back' }),
    );
  });
});

describe('10,000 changes of a header', () => {
  test('are all refused, each with a code', () => {
    const header = Buffer.from(CONTENT.header);
    const json = jsonOf(header);
    const next = seeded(22);
    const codes = new Map<string, number>();
    for (let count = 0; count < 10_000; count++) {
      const how = CHANGES[next(CHANGES.length)] ?? CHANGES[0];
      const code = how === undefined ? undefined : changedAndJudged(header, json, how, next);
      if (code === undefined) throw new Error(`change ${count} (${how?.name}) was accepted`);
      expect(code).toMatch(/^(luks|statedisk)-/);
      codes.set(code, (codes.get(code) ?? 0) + 1);
    }
    // The changes were refused for many reasons, so not always the same check refused them.
    expect([...codes.keys()].length).toBeGreaterThan(12);
    expect(codes.has('statedisk-changed')).toBe(true);
  });
});

function changed(bytes: Uint8Array, at: number): Uint8Array {
  const copy = Buffer.from(bytes);
  copy.writeUInt8(copy.readUInt8(at) ^ 1, at);
  return copy;
}

type Next = (below: number) => number;

/** Changes the header in place, judges it and restores it: copying 4 MiB 10,000 times would take minutes. */
function changedAndJudged(header: Buffer, json: string, how: Change, next: Next): string | undefined {
  const saved = Buffer.from(header.subarray(0, 32_768));
  how.change(header, json, next);
  const isSame = saved.equals(header.subarray(0, 32_768));
  const code = isSame ? 'luks-unchanged' : refusalOf(header);
  header.set(saved);
  return code;
}

let accepted = 0;

/**
 * The parser refuses most changes. Only the MAC detects the other changes, e.g. of a salt. The MAC is computed for
 * every hundredth change, because it covers 4 MiB.
 */
function refusalOf(header: Uint8Array): string | undefined {
  try {
    parseLuksHeader(header);
    if (accepted++ % 100 > 0) return 'statedisk-changed';
    const record = Buffer.from(RECORD);
    record.set(header, record.length - header.length);
    const found = parseRecord(padded(withChecksum(record)));
    if (found.kind !== 'ready') return 'damaged';
    found.verify(KEY);
    return undefined;
  } catch (error) {
    return findCoded(error)?.code ?? String(error);
  }
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
      const at = next(4096);
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
