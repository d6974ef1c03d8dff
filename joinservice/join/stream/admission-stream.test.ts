import { create } from '@bufbuild/protobuf';
import { expect, test } from '@jest/globals';
import { generateKeyPairSync, sign } from 'node:crypto';
import type { AttestedPeer } from '../../../internal/atls/index.ts';
import { machineKeyStatement } from '../../../internal/crypto/index.ts';
import { spkiDerOf } from '../../../internal/pki/index.ts';
import { FairQueue } from '../../../internal/rpc/index.ts';
import { FakeClock, settle } from '../../../internal/testing/index.ts';
import { AdmissionRequestSchema, type AdmissionRequest } from '../../joinproto/gen/join_pb.js';
import { admissionStream, type AdmissionStreamParts } from './admission-stream.ts';

const session = new Uint8Array(64).fill(5);

/** A machine that sends its hello and then nothing more. */
function hello(): AdmissionRequest {
  const { publicKey, privateKey } = generateKeyPairSync('ed25519');
  const signature = new Uint8Array(sign(undefined, machineKeyStatement(session), privateKey));
  const key = { publicKey: spkiDerOf(publicKey), signature };
  return create(AdmissionRequestSchema, {
    message: { case: 'hello', value: { key, address: '192.0.2.1', nowMs: 0n } },
  });
}

/** A join service that challenges each machine and records the result of each challenge. */
function createStreams(slots: number) {
  const clock = new FakeClock();
  const outcomes: unknown[] = [];
  const challenged: Uint8Array[] = [];
  const challengeSlots = new FairQueue({ maxActive: slots, maxWaiting: 16, clock });
  const identify = async (
    _peer: unknown,
    _enrolment: unknown,
    exchange: (bytes: Uint8Array) => Promise<unknown>,
  ) => {
    const challenge = new Uint8Array([challenged.length]);
    challenged.push(challenge);
    outcomes.push(await exchange(challenge).catch((error: unknown) => error));
    throw new Error('nobody knows');
  };
  const parts = {
    facts: { clusterIdentity: () => Promise.resolve({}) },
    identifier: { identify },
    challengeSlots,
    clock,
  } as unknown as AdmissionStreamParts;
  const dial = (address: string) => {
    const stop = new AbortController();
    const requests = (async function* () {
      yield hello();
      await new Promise(() => undefined);
    })();
    const call = { peer: { session } as unknown as AttestedPeer, signal: stop.signal, address };
    return admissionStream(parts, requests, call);
  };
  return { dial, challenged, outcomes, challengeSlots };
}

test('admissionStream() closes the challenge and frees the slot of a machine that disconnects', async () => {
  const { dial, outcomes, challengeSlots } = createStreams(4);
  const events = dial('203.0.113.9');
  await events.next(); // The first event has the cluster identity.
  expect((await events.next()).value).toMatchObject({ event: { case: 'challenge' } });
  expect(challengeSlots.active).toBe(1);
  await events.return(undefined);
  await settle();
  expect(outcomes).toEqual([expect.objectContaining({ code: 'join-hung-up' })]);
  expect(challengeSlots.active).toBe(0);
});

test('admissionStream() limits the challenges of one address so that others are served', async () => {
  const { dial, challenged } = createStreams(8);
  const streams = Array.from({ length: 20 }, () => dial('203.0.113.9'));
  for (const stream of streams) {
    await stream.next();
    stream.next().catch(() => undefined);
  }
  await settle();
  expect(challenged).toHaveLength(3); // One address may use three eighths of the slots.
  const other = dial('198.51.100.1');
  await other.next();
  expect((await other.next()).value).toMatchObject({ event: { case: 'challenge' } });
});
