import { beforeEach, describe, expect, test } from '@jest/globals';
import type { AttestedPeer } from '../../../internal/atls/index.ts';
import { put } from '../../../internal/etcd/index.ts';
import { records, type NodeRecord } from '../../../internal/records/index.ts';
import { FakeClock, MemoryEtcd } from '../../../internal/testing/index.ts';
import { ClockObservations } from './clock-observations.ts';

const never = new AbortController().signal;
const MINUTE_MS = 60_000;
const identity = 'tpm-ek:ab';
const KEY = records.identity.key(identity);
const node = {
  nodeId: 'node-1',
  admission: { identity, akName: '000b01' },
} as NodeRecord;

let etcd: MemoryEtcd;
let clock: FakeClock;
let observations: ClockObservations;
beforeEach(async () => {
  etcd = new MemoryEtcd();
  clock = new FakeClock();
  observations = new ClockObservations({ etcd, clock });
  const record = records.identity.encode({ version: 1, nodeId: 'node-1', akName: '000b01' });
  await etcd.commit({ when: [], then: [put(KEY, record)] }, { signal: never });
});

interface Shown {
  readonly clockMs: number;
  readonly resetCount?: number;
  readonly restartCount?: number;
  readonly safe?: boolean;
}

/** A session whose quote contained this TPM clock. */
function peer({ clockMs, resetCount = 1, restartCount = 0, safe = true }: Shown, prefix = ''): AttestedPeer {
  const claims = { clockMs: `${clockMs}`, resetCount, restartCount, safe };
  const named = Object.entries(claims).map(([name, claim]) => [`${prefix}${name}`, claim]);
  return { claims: Object.fromEntries(named) as AttestedPeer['claims'] } as AttestedPeer;
}

async function storedObservation() {
  const entry = await etcd.get(KEY, { signal: never });
  return records.identity.decode(KEY, entry?.value ?? new Uint8Array()).sighting;
}

const note = (shown: Shown): Promise<void> => observations.record(node, peer(shown), never);
const copied = (kind: string): unknown =>
  expect.objectContaining({ code: 'join-machine-copied', details: { kind } });

describe('ClockObservations.record()', () => {
  test('ClockObservations.record() keeps the latest clock', async () => {
    await note({ clockMs: 1000 });
    await clock.advance(MINUTE_MS);
    await note({ clockMs: 1000 + MINUTE_MS });
    expect(await storedObservation()).toMatchObject({
      clockMs: `${1000 + MINUTE_MS}`,
      seenAtMs: clock.nowMs(),
    });
  });

  test('ClockObservations.record() writes once in ten seconds, however many tickets a member requests', async () => {
    await note({ clockMs: 1000 });
    const { revision } = etcd;
    for (let i = 1; i < 100; i++) {
      await clock.advance(100);
      await note({ clockMs: 1000 + i * 100 });
    }
    expect(etcd.revision).toBe(revision);
    await clock.advance(100);
    await note({ clockMs: 11_000 });
    expect(await storedObservation()).toMatchObject({ clockMs: '11000' });
    await note({ clockMs: 11_001, resetCount: 2 });
    expect(await storedObservation()).toMatchObject({ resetCount: 2 });
  });

  test('ClockObservations.record() accepts a clock slightly behind that of an earlier call, and keeps the later clock', async () => {
    await note({ clockMs: 2 * MINUTE_MS });
    await note({ clockMs: MINUTE_MS });
    expect(await storedObservation()).toMatchObject({ clockMs: `${2 * MINUTE_MS}` });
  });

  test('ClockObservations.record() refuses a copy that was restarted fewer times than the original', async () => {
    await note({ clockMs: 1000, resetCount: 5 });
    await expect(note({ clockMs: 900_000, resetCount: 4 })).rejects.toThrow(copied('clock-behind'));
    expect(await storedObservation()).toMatchObject({ resetCount: 5 });
  });

  test('ClockObservations.record() refuses a copy of the TPM whose clock is behind the recorded one', async () => {
    await note({ clockMs: 600 * MINUTE_MS });
    await expect(note({ clockMs: 590 * MINUTE_MS })).rejects.toThrow(copied('clock-behind'));
  });

  test('ClockObservations.record() refuses one of two copies that run alternately', async () => {
    await note({ clockMs: 1000 });
    await clock.advance(MINUTE_MS);
    await expect(note({ clockMs: 60 * MINUTE_MS })).rejects.toThrow(copied('clock-ahead'));
  });

  test('ClockObservations.record() accepts a restarted machine, also without an orderly shutdown', async () => {
    await note({ clockMs: 100_000 });
    await note({ clockMs: 101_000, resetCount: 2 });
    await note({ clockMs: 99_000, resetCount: 3, safe: false });
    expect(await storedObservation()).toMatchObject({ resetCount: 3 });
  });

  test('ClockObservations.record() checks a TPM that a processor vouches for', async () => {
    await observations.record(node, peer({ clockMs: 5, resetCount: 9 }, 'tpm.'), never);
    expect(await storedObservation()).toMatchObject({ resetCount: 9 });
  });

  test('ClockObservations.record() accepts a machine without a TPM', async () => {
    await observations.record(node, { claims: {} } as AttestedPeer, never);
    expect(await storedObservation()).toBeUndefined();
  });

  test('ClockObservations.record() keeps the later of two clocks that are written at the same time', async () => {
    let isFirst = true;
    etcd.onCommit = () => {
      if (!isFirst) return;
      isFirst = false;
      const other = { clockMs: '9', resetCount: 7, restartCount: 0, safe: true, seenAtMs: 0 };
      const record = { version: 1 as const, nodeId: 'node-1', akName: '000b01', sighting: other };
      void etcd.commit({ when: [], then: [put(KEY, records.identity.encode(record))] }, { signal: never });
    };
    await expect(note({ clockMs: 1000, resetCount: 6 })).rejects.toThrow(copied('clock-behind'));
  });
});
