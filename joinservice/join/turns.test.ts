import { create } from '@bufbuild/protobuf';
import { expect, test } from '@jest/globals';
import { FakeClock } from '../../internal/testing/index.ts';
import { AdmissionRequestSchema, type AdmissionRequest } from '../joinproto/gen/join_pb.js';
import { Turns } from './turns.ts';

const never = new AbortController().signal;
const turnsOf = (...requests: readonly AdmissionRequest[]): Turns =>
  new Turns(
    (async function* () {
      yield* requests;
    })(),
    new FakeClock(),
  );

test('a machine that hangs up is judged no worse than unreachable: of those asked at once it keeps one', async () => {
  await expect(turnsOf().hello(never)).rejects.toMatchObject({ code: 'join-hung-up', exit: 'unreachable' });
});

test('a message out of its turn is malformed', async () => {
  await expect(turnsOf(create(AdmissionRequestSchema, {})).hello(never)).rejects.toMatchObject({
    code: 'join-message-malformed',
  });
});
