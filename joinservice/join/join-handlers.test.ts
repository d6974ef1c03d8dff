import { create } from '@bufbuild/protobuf';
import { expect, test } from '@jest/globals';
import type { AttestedPeer } from '../../internal/atls/index.ts';
import type { CodedError } from '../../internal/errors/index.ts';
import { FairQueue, RemoteError, type Call } from '../../internal/rpc/index.ts';
import { createMemoryLogger, FakeClock } from '../../internal/testing/index.ts';
import { IssueDiskShareRequestSchema } from '../joinproto/gen/join_pb.js';
import { JoinError } from './errors.ts';
import { joinHandlers, type JoinHandlerParts } from './join-handlers.ts';

const peer = {
  ...{ variant: 'tpm', measurements: new Map(), claims: {}, verdict: { policyVersion: 'p' } },
  machineIdentity: { kind: 'tpm-ak', id: 'ab', proof: 'pinned' },
} as unknown as AttestedPeer;
const call: Call<AttestedPeer> = { peer, signal: new AbortController().signal, address: '192.0.2.1' };

/** The error of a signer as its client throws it. */
function fromSigner(code: string, exit: 'precondition' | 'refused'): RemoteError {
  return new RemoteError({ code, fault: 'operator', exit, retryable: false, message: 'giving', fix: '' });
}

/** The codes in the audit log, and the levels of the lines in the own log, after a machine has asked for the share of its disk. */
async function written(error: CodedError): Promise<{ audited: string[]; logged: string[] }> {
  const audited: string[] = [];
  const { log, records } = createMemoryLogger();
  const refusals = { write: ({ code }: { code: string }) => Promise.resolve(void audited.push(code)) };
  const parts = {
    ...{ refusals, log, diskShares: { issue: () => Promise.reject(error) } },
    workSlots: new FairQueue({ maxActive: 1, maxWaiting: 1, clock: new FakeClock() }),
  } as unknown as JoinHandlerParts;
  const { issueDiskShare } = joinHandlers(parts);
  await expect(issueDiskShare(create(IssueDiskShareRequestSchema), call)).rejects.toBe(error);
  return { audited, logged: records.map(({ level }) => level) };
}

test.each(['signer-share-unavailable', 'signer-share-malformed', 'signer-key-missing'] as const)(
  'a signer that lacks something is in the log of the join service, not in the audit log: %s',
  async (code) => {
    expect(await written(fromSigner(code, 'precondition'))).toEqual({ audited: [], logged: ['warn'] });
  },
);

test.each([
  fromSigner('signer-share-not-member', 'refused'),
  fromSigner('signer-evidence-refused', 'refused'),
  new JoinError('join-share-not-member', 'giving'),
])('a refused machine is in the audit log: $code', async (error) => {
  expect(await written(error)).toEqual({ audited: [error.code], logged: ['info'] });
});
