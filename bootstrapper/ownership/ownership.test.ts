import { describe, expect, test } from '@jest/globals';
import {
  generateEd25519Key,
  ed25519PubKeyFrom,
  ownershipStatement,
  signEd25519,
} from '../../internal/crypto/index.ts';
import { EventValue, currentValue } from '../../internal/event/index.ts';
import { createCaCertPem, generateKeyPem } from '../../internal/pki/index.ts';
import { FakeClock, settle, superviseForTest } from '../../internal/testing/index.ts';
import type { Acknowledgement, InitOutcome } from '../initserver/index.ts';
import type { LocalControlPlane } from '../roleserve/index.ts';
import { ownershipRunnable, type Ownership } from './ownership.ts';

const MINUTE_MS = 60_000;
const ownerKey = generateEd25519Key();
const ownPubKey = ed25519PubKeyFrom(ownerKey) ?? new Uint8Array();
const outcome = {
  clusterId: 'a'.repeat(32),
  clusterCaPem: await createCaCertPem({ commonName: 'CA', keyPem: generateKeyPem(), nowMs: 0 }),
  epoch: 1,
} as unknown as InitOutcome;
const word = Buffer.from(
  signEd25519(ownerKey, ownershipStatement({ ...outcome, epoch: BigInt(outcome.epoch) })),
).toString('base64');

/** The machine that created a cluster, with a running control plane. */
function createMachine() {
  const clock = new FakeClock();
  const acknowledged = new EventValue<Acknowledgement>();
  const finished = new EventValue<InitOutcome | undefined>();
  const localControlPlane = new EventValue<LocalControlPlane | undefined>();
  const machine = { clock, acknowledged, outcome: finished, localControlPlane, kept: [] as Ownership[] };
  const record = { value: undefined as string | undefined, looks: 0, failsOnce: false };
  finished.set(undefined);
  localControlPlane.set({} as LocalControlPlane);
  const runnable = ownershipRunnable({
    job: {
      acknowledged,
      outcome: finished,
      acknowledge: (ownershipSignatureBase64) => {
        acknowledged.set({ ownershipSignatureBase64 });
        return Promise.resolve();
      },
    },
    ownerKeys: [ownPubKey],
    localControlPlane,
    clock,
    save: (ownership) => (machine.kept.push(ownership), Promise.resolve()),
    load: () => {
      record.looks++;
      if (record.failsOnce && record.looks === 1) return Promise.reject(new Error('etcd is away'));
      return Promise.resolve(record.value);
    },
  });
  return { ...machine, record, tree: superviseForTest(runnable) };
}

describe('ownershipRunnable()', () => {
  test('saves the signature that the owner sent to this machine', async () => {
    const { tree, outcome: finished, acknowledged, kept } = createMachine();
    await using _tree = tree;
    finished.set(outcome);
    acknowledged.set({ ownershipSignatureBase64: word });
    await settle();
    expect(kept).toMatchObject([{ signature: word, epoch: 1 }]);
  });

  test('saves no signature of another key', async () => {
    const { tree, outcome: finished, acknowledged, kept } = createMachine();
    await using _tree = tree;
    finished.set(outcome);
    acknowledged.set({ ownershipSignatureBase64: Buffer.alloc(64).toString('base64') });
    await settle();
    expect(kept).toEqual([]);
  });

  test('accepts an acknowledgement that the owner sent to a curator, even after reading the record failed once', async () => {
    const { tree, outcome: finished, acknowledged, record, clock, kept } = createMachine();
    await using _tree = tree;
    record.failsOnce = true;
    finished.set(outcome);
    await settle();
    await clock.advance(MINUTE_MS);
    record.value = 'of an owner whom this machine does not know';
    expect(currentValue(acknowledged)).toBeUndefined();
    await clock.advance(MINUTE_MS);
    expect(currentValue(acknowledged)).toEqual({ ownershipSignatureBase64: record.value });
    expect([record.looks, kept]).toEqual([2, []]);
  });

  test('reads no record on a machine without an init', async () => {
    const { tree, record, clock } = createMachine();
    await using _tree = tree;
    record.value = word;
    await settle();
    await clock.advance(10 * MINUTE_MS);
    expect(record.looks).toBe(0);
  });
});
