import { create } from '@bufbuild/protobuf';
import { expect, test } from '@jest/globals';
import { FakeClock } from '../../../internal/testing/index.ts';
import { AdmissionRequestSchema, type AdmissionRequest } from '../../joinproto/gen/join_pb.js';
import { MachineMessages } from './machine-messages.ts';

const never = new AbortController().signal;
const messagesOf = (...requests: readonly AdmissionRequest[]): MachineMessages =>
  new MachineMessages(
    (async function* () {
      yield* requests;
    })(),
    new FakeClock(),
  );

test('MachineMessages reports a machine that disconnects as unreachable, not as refused', async () => {
  await expect(messagesOf().hello(never)).rejects.toMatchObject({
    code: 'join-hung-up',
    exit: 'unreachable',
  });
});

test('MachineMessages refuses a message out of order', async () => {
  await expect(messagesOf(create(AdmissionRequestSchema, {})).hello(never)).rejects.toMatchObject({
    code: 'join-message-malformed',
  });
});
