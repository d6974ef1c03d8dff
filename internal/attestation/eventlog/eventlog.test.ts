import { readFileSync } from 'node:fs';
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import {
  buildLog,
  sha256,
  startupLocality,
  type BuiltEvent,
  type BuiltHeader,
} from '../../testing/tpm/event-log.ts';
import { fuzz } from '../../testing/fuzz.ts';
import { EventlogError } from './errors.ts';
import { MAX_LOG_BYTES, parseEventLog, type EventLog } from './parse.ts';
import { isDataMeasured, replayEventLog, verifyEventLog } from './replay.ts';

const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');
const fixture = (name: string): Uint8Array =>
  new Uint8Array(readFileSync(new URL(`fixtures/${name}`, import.meta.url)));
const text = (value: string): Uint8Array => new Uint8Array(Buffer.from(value));
const coded = (code: string): unknown => expect.objectContaining({ code });

const EVENTS: readonly BuiltEvent[] = [
  { register: 0, type: 0x80000008, data: text('firmware'), digest: sha256(text('the blob itself')) },
  { register: 4, type: 0x04, data: text('\0\0\0\0') },
  { register: 4, type: 0x0d, data: text('kernel') },
];

/** Computes TPM2_PCR_Extend, independently of the code under test. */
function extended(...digests: readonly Uint8Array[]): Uint8Array {
  return digests.reduce((value, digest) => sha256(Buffer.concat([value, digest])), new Uint8Array(32));
}

const QUOTED: ReadonlyMap<number, Uint8Array> = new Map([
  [0, extended(sha256(text('the blob itself')))],
  [4, extended(sha256(text('\0\0\0\0')), sha256(text('kernel')))],
  [7, new Uint8Array(32)],
]);

describe('parsing and replaying the event logs of real machines', () => {
  const known = [
    {
      name: 'arch-linux-workstation.bin',
      kind: 'tpm',
      hash: 'sha256',
      registers: {
        0: '758b773d94feabf52ef5a4c00a7ad2c80d8d6e6d9d58756150be9bc973da9087',
        4: '925d453d3dfef4ac0c72c957402163d45fa95d05e6d53f047263a3a60b598325',
        7: '3b4a4db44b7a872524055364e62e897ae678e0d47ab0809f65c3a4ed77f66ab9',
        8: '47591b43af431963eaeb5238a5c42eda1eb0014c27f7de7ae483066a2d2a2e61',
      },
    },
    {
      name: 'cos-85-amd-sev.bin',
      kind: 'tpm',
      hash: 'sha256',
      registers: {
        0: '0f35c214608d93c7a6e68ae7359b4a8be5a0e99eea9107ece427c4dea4e439cf',
        4: 'd690bdac2aa8b73a1d718cb91990df07d0747b07ea57b3b2d0f0d511f0d90491',
        7: '3365d7fa2b024c852913c06e04ffbfa6ea5289f743bbf1a76f7ffdf21ed84793',
        9: 'f4f2d92d6d54f6c41f2706fd98091317642e0680a7902c72893d41e3464a93b7',
      },
    },
    {
      name: 'cos-113-tdx.ccel',
      kind: 'ccel',
      hash: 'sha384',
      registers: {
        1: 'a4de2df23e9611299123ba4359c42a5e578b0f8488bf1bba8ef5606d9ea5d81c97c064b482a5eac537d166bd0f0f752d',
        2: '0ee9366c928a77092f55e9e114c7394181fd264699155f0df77d23577618d5f650568a17d379355a07bd846e552f4e20',
        3: '4969684dc87381fc3b3134176c8d8806eaf0a901859f5f70cfae8d17714b46c10a8de219048c9fc09f11f381a6fbe7c1',
      },
    },
  ] as const;

  test.each(known)('$name replays to its published register values', ({ name, kind, hash, registers }) => {
    const log = parseEventLog(fixture(name), kind);
    const quoted = new Map(
      Object.entries(registers).map(([register, value]) => [Number(register), Buffer.from(value, 'hex')]),
    );
    verifyEventLog(log, hash, quoted);
    expect(quoted.size).toBeGreaterThan(2);
  });

  test('a CCEL padded with 0xff parses to the same log', () => {
    const bytes = fixture('cos-113-tdx.ccel');
    const padded = Buffer.concat([bytes, Buffer.alloc(65_536 - bytes.length, 0xff)]);
    expect(parseEventLog(padded, 'ccel').events).toHaveLength(parseEventLog(bytes, 'ccel').events.length);
  });

  test.each([
    { name: 'debian-10.bin', why: 'it is in the old format without Spec ID' },
    { name: 'short-no-action.bin', why: 'its header is cut off' },
  ])('parseEventLog() refuses $name because $why', ({ name }) => {
    expect(() => parseEventLog(fixture(name), 'tpm')).toThrow(coded('eventlog-header'));
  });

  test('a log is refused if a byte of its measured event data is changed', () => {
    const bytes = fixture('arch-linux-workstation.bin');
    const log = parseEventLog(bytes, 'tpm');
    const before = replayEventLog(log, 'sha256');
    const trusted = new Set(trustedData(log));
    let unseen = 0;
    for (let at = 0; at < bytes.length; at += 7) {
      const copy = bytes.slice();
      copy[at] = (copy[at] ?? 0) ^ (1 << (at % 8));
      try {
        const altered = parseEventLog(copy, 'tpm');
        verifyEventLog(altered, 'sha256', before);
        unseen++;
        expect(trustedData(altered).filter((each) => !trusted.has(each))).toEqual([]);
      } catch (error) {
        expect(error).toBeInstanceOf(EventlogError);
      }
    }
    expect(unseen).toBeGreaterThan(0); // some changes go unnoticed: a log is not signed; evidence covers its hash
  });

  function trustedData(log: EventLog): string[] {
    const measured = log.events.filter((event) => isDataMeasured(event, 'sha256'));
    return measured.map((event) => `${event.register}:${hex(event.data)}`);
  }
});

describe('verifyEventLog()', () => {
  test('accepts a log that replays to the quoted registers, also if a register is zero and has no events', () => {
    verifyEventLog(parseEventLog(buildLog(EVENTS), 'tpm'), 'sha256', QUOTED);
  });

  const [first, second, third] = EVENTS as [BuiltEvent, BuiltEvent, BuiltEvent];
  const hostile = [
    { name: 'a log with reordered events', events: [first, third, second] },
    {
      name: 'a log with an appended event',
      events: [...EVENTS, { register: 4, type: 0x0d, data: text('more') }],
    },
    {
      name: 'a log with an event for a register that is zero',
      events: [...EVENTS, { register: 7, type: 4, data: text('x') }],
    },
    { name: 'a log without its last event', events: [first, second] },
    { name: 'a log without the events of one register', events: [first] },
    {
      name: 'a log with an event of another boot',
      events: [first, second, { register: 4, type: 0x0d, data: text('other kernel') }],
    },
    {
      name: 'a log with an event moved to another register',
      events: [first, second, { ...third, register: 5 }],
    },
    {
      name: 'a log with an event relabelled as EV_NO_ACTION',
      events: [first, second, { ...third, type: 3 }],
    },
  ];
  test.each(hostile)('refuses $name', ({ events }) => {
    const log = parseEventLog(buildLog(events), 'tpm');
    expect(() => verifyEventLog(log, 'sha256', QUOTED)).toThrow(coded('eventlog-replay'));
  });

  test('reports the register with its expected and its replayed value', () => {
    const log = parseEventLog(buildLog([]), 'tpm');
    const quoted = new Map([[4, Buffer.alloc(32, 1)]]);
    expect(() => verifyEventLog(log, 'sha256', quoted)).toThrow(
      expect.objectContaining({
        details: { register: 4, expected: '00'.repeat(32), actual: '01'.repeat(32) },
      }),
    );
  });

  test('refuses a log without digests of the quoted bank', () => {
    const log = parseEventLog(buildLog([], { algorithms: [[0x04, 20]] }), 'tpm');
    expect(() => verifyEventLog(log, 'sha256', QUOTED)).toThrow(coded('eventlog-bank-missing'));
  });

  test('a log with altered event data still replays; isDataMeasured() returns false for that event', () => {
    const lying = parseEventLog(buildLog([{ ...first, data: text('fine firmware') }, second, third]), 'tpm');
    verifyEventLog(lying, 'sha256', QUOTED);
    expect(lying.events.map((event) => isDataMeasured(event, 'sha256'))).toEqual([false, true, true]);
    const forged = parseEventLog(
      buildLog([first, second, { ...third, data: text('fine kernel'), digest: sha256(text('kernel')) }]),
      'tpm',
    );
    verifyEventLog(forged, 'sha256', QUOTED);
    expect(forged.events.map((event) => isDataMeasured(event, 'sha256'))).toEqual([false, true, false]);
  });

  test('isDataMeasured() returns false for an EV_NO_ACTION event', () => {
    const log = parseEventLog(buildLog([{ register: 0, type: 3, data: text('trust me') }]), 'tpm');
    expect(log.events.map((event) => isDataMeasured(event, 'sha256'))).toEqual([false]);
  });

  test('replayEventLog() extends the events of each register in order', () => {
    const digests = fc.array(fc.uint8Array({ minLength: 32, maxLength: 32 }), { maxLength: 12 });
    fc.assert(
      fc.property(digests, (all) => {
        const log = parseEventLog(buildLog(all.map((digest) => ({ register: 9, type: 6, digest }))), 'tpm');
        const value = replayEventLog(log, 'sha256').get(9) ?? new Uint8Array(32);
        expect(hex(value)).toBe(hex(extended(...all)));
      }),
    );
  });
});

describe('the StartupLocality event', () => {
  const replayed = (events: readonly BuiltEvent[]): string =>
    hex(replayEventLog(parseEventLog(buildLog(events), 'tpm'), 'sha256').get(0) ?? new Uint8Array());
  const event: BuiltEvent = { register: 0, type: 8, data: text('version') };

  test('sets the last byte of the start value of PCR 0', () => {
    const start = new Uint8Array(32);
    start[31] = 3;
    const expected = sha256(Buffer.concat([start, sha256(text('version'))]));
    expect(replayed([startupLocality(3), event])).toBe(hex(expected));
  });

  const hostile = [
    { name: 'is refused if it appears twice', events: [startupLocality(3), startupLocality(3), event] },
    { name: 'is refused after PCR 0 was extended', events: [event, startupLocality(3)] },
    { name: 'is refused for a locality that cannot start a TPM', events: [startupLocality(2), event] },
    {
      name: 'is refused with trailing data',
      events: [{ ...startupLocality(3), data: text('StartupLocality\0\u0003\u0003') }, event],
    },
    {
      name: 'is refused without a locality',
      events: [{ ...startupLocality(3), data: text('StartupLocality\0') }, event],
    },
  ];
  test.each(hostile)('$name', ({ events }) => {
    expect(() => replayed(events)).toThrow(coded('eventlog-locality'));
  });
});

describe('parseEventLog()', () => {
  const event: BuiltEvent = { register: 4, type: 4, data: text('x') };
  const sha1 = [0x04, new Uint8Array(20)] as const;
  const sha256Digest = [0x0b, new Uint8Array(32)] as const;
  const hostileEvents: readonly {
    readonly name: string;
    readonly event: BuiltEvent;
    readonly code: string;
  }[] = [
    { name: 'the register PCR 24', event: { ...event, register: 24 }, code: 'eventlog-register' },
    {
      name: 'the register PCR 2^32 - 2',
      event: { ...event, register: 0xfffffffe },
      code: 'eventlog-register',
    },
    {
      name: 'more digests than the header announces',
      event: { ...event, digests: [sha256Digest, sha1] },
      code: 'eventlog-digests',
    },
    {
      name: 'a digest count that exceeds the log',
      event: { ...event, digestCount: 0xffffffff },
      code: 'eventlog-digests',
    },
    { name: 'no digests', event: { ...event, digests: [] }, code: 'eventlog-digests' },
    {
      name: 'a digest of SHA-1 where the header announces SHA-256',
      event: { ...event, digests: [sha1] },
      code: 'eventlog-digests',
    },
    {
      name: 'a digest of an unknown algorithm',
      event: { ...event, digests: [[0xffff, new Uint8Array(32)]] },
      code: 'eventlog-digests',
    },
    {
      name: 'a data size of 2^32 - 1',
      event: { ...event, dataSize: 0xffffffff },
      code: 'eventlog-truncated',
    },
    {
      name: 'a data size one above the actual size',
      event: { ...event, dataSize: 2 },
      code: 'eventlog-truncated',
    },
  ];
  test.each(hostileEvents)('refuses an event with $name', ({ event: hostile, code }) => {
    expect(() => parseEventLog(buildLog([event, hostile]), 'tpm')).toThrow(coded(code));
  });

  test('refuses an event with two digests of one algorithm', () => {
    const twice: BuiltEvent = { ...event, digests: [sha256Digest, sha256Digest] };
    const header: BuiltHeader = {
      algorithms: [
        [0x0b, 32],
        [0x04, 20],
      ],
    };
    expect(() => parseEventLog(buildLog([twice], header), 'tpm')).toThrow(coded('eventlog-digests'));
  });

  const hostileHeaders: readonly {
    readonly name: string;
    readonly header: BuiltHeader;
    readonly code: string;
  }[] = [
    { name: 'a register other than 0', header: { register: 2 }, code: 'eventlog-header' },
    { name: 'a type other than EV_NO_ACTION', header: { type: 4 }, code: 'eventlog-header' },
    { name: 'an unknown signature', header: { signature: 'Spec ID Event02' }, code: 'eventlog-header' },
    { name: 'an unknown major version', header: { majorVersion: 1 }, code: 'eventlog-header' },
    { name: 'trailing bytes', header: { trailing: 1 }, code: 'eventlog-header' },
    { name: 'no algorithms', header: { algorithms: [] }, code: 'eventlog-algorithms' },
    {
      name: 'a duplicate algorithm',
      header: {
        algorithms: [
          [0x0b, 32],
          [0x0b, 32],
        ],
      },
      code: 'eventlog-algorithms',
    },
    {
      name: 'a wrong digest size for SHA-256',
      header: { algorithms: [[0x0b, 20]] },
      code: 'eventlog-algorithms',
    },
    { name: 'an unknown algorithm', header: { algorithms: [[0x99, 32]] }, code: 'eventlog-algorithms' },
    {
      name: 'a count of 2^32 - 1 algorithms',
      header: { algorithmCount: 0xffffffff },
      code: 'eventlog-algorithms',
    },
    {
      name: 'a count above the listed algorithms',
      header: { algorithmCount: 3 },
      code: 'eventlog-truncated',
    },
    { name: 'a size that exceeds the log', header: { size: 0xffffffff }, code: 'eventlog-truncated' },
  ];
  test.each(hostileHeaders)('refuses a header with $name', ({ header, code }) => {
    expect(() => parseEventLog(buildLog([], header), 'tpm')).toThrow(coded(code));
  });

  test('refuses a log truncated within an event', () => {
    const [whole, header] = [buildLog(EVENTS), buildLog([])];
    const ends = new Set(
      EVENTS.map((_, index) => buildLog(EVENTS.slice(0, index)).length).concat(whole.length),
    );
    for (let length = header.length; length < whole.length; length++) {
      if (ends.has(length)) continue;
      expect(() => parseEventLog(whole.slice(0, length), 'tpm')).toThrow(coded('eventlog-truncated'));
    }
  });

  test('refuses a log above the size limit before parsing', () => {
    expect(() => parseEventLog(new Uint8Array(MAX_LOG_BYTES + 1), 'tpm')).toThrow(
      coded('eventlog-too-large'),
    );
  });

  const log = buildLog(EVENTS);
  test.each([
    { name: 'zero bytes', padding: Buffer.alloc(100) },
    { name: '0xff bytes', padding: Buffer.alloc(100, 0xff) },
  ])('accepts padding of $name', ({ padding }) => {
    expect(parseEventLog(Buffer.concat([log, padding]), 'tpm').events).toHaveLength(3);
  });

  test.each([
    {
      name: 'zero bytes with another byte among them',
      padding: Buffer.concat([Buffer.alloc(50), Buffer.of(1), Buffer.alloc(50)]),
    },
    {
      name: '0xff bytes that another byte follows',
      padding: Buffer.concat([Buffer.alloc(50, 0xff), Buffer.of(1)]),
    },
    {
      name: 'zero bytes that 0xff bytes follow',
      padding: Buffer.concat([Buffer.alloc(50), Buffer.alloc(50, 0xff)]),
    },
  ])('refuses padding of $name', ({ padding }) => {
    expect(() => parseEventLog(Buffer.concat([log, padding]), 'tpm')).toThrow(coded('eventlog-padding'));
  });

  test('accepts registers 0 to 4 in a CCEL', () => {
    const ccel = (register: number) => () =>
      parseEventLog(buildLog([{ ...event, register }], { register: 1 }), 'ccel');
    expect(ccel(4)().events).toHaveLength(1);
    expect(ccel(5)).toThrow(coded('eventlog-register'));
  });

  test('throws only its coded error for arbitrary bytes, and every parsed log can be replayed', () => {
    const seeds = [
      fixture('arch-linux-workstation.bin').slice(0, 3000),
      fixture('cos-113-tdx.ccel').slice(0, 3000),
      buildLog(EVENTS),
    ];
    const parse = (input: Uint8Array): unknown => [
      replayEventLog(parseEventLog(input, 'tpm'), 'sha256'),
      replayEventLog(parseEventLog(input, 'ccel'), 'sha384'),
    ];
    expect(fuzz({ seeds, parse, codes: ['eventlog-'] }).refused).toBeGreaterThan(100);
  });
});
