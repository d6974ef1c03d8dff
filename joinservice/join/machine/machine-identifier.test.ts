import { expect, test } from '@jest/globals';
import type { AttestedPeer } from '../../../internal/atls/index.ts';
import {
  CredentialActivations,
  encodeEnrolmentRequest,
} from '../../../internal/attestation/enrolment/index.ts';
import { createSoftKey } from '../../../internal/testing/tpm/fake-tpm.ts';
import { FakeClock } from '../../../internal/testing/index.ts';
import { generateKey } from '../../../internal/testing/pki/index.ts';
import { nameOf, parsePublic, WireWriter } from '../../../internal/tpm/index.ts';
import { MachineIdentifier } from './machine-identifier.ts';

/** An EK public area of template L-2 (TCG EK Credential Profile). */
function endorsementKey(): Uint8Array {
  const point = generateKey('p256').spki.subarray(-64);
  const head = new WireWriter().u16(0x0023).u16(0x000b).u32(0x000300b2).sized(new Uint8Array(32));
  for (const each of [0x0006, 128, 0x0043, 0x0010, 0x0003, 0x0010]) head.u16(each);
  return head.sized(point.subarray(0, 32)).sized(point.subarray(32)).finish();
}

test('MachineIdentifier closes the challenge of a machine that disconnects before it answers', async () => {
  const endorsements = { roots: new Set<string>(), authorities: [], pinnedKeys: new Set<string>() };
  const trust = { endorsements, machines: 'any', inventory: new Set<string>(), profile: 'identity' } as const;
  const activations = new CredentialActivations({ maxOpen: 2 });
  const identifier = new MachineIdentifier({ trust: () => trust, clock: new FakeClock(), activations });
  const attestationKey = createSoftKey().publicArea;
  const peer = {
    variant: 'tpm',
    session: new Uint8Array(64),
    measurements: new Map(),
    claims: { attestationKey: Buffer.from(nameOf(parsePublic(attestationKey))).toString('hex') },
    machineIdentity: { kind: 'tpm-ak', id: 'a', proof: 'unproved' },
    verdict: { policyVersion: 'p', checks: [] },
  } as unknown as AttestedPeer;
  const enrolment = encodeEnrolmentRequest({ endorsementKey: endorsementKey(), attestationKey });
  const hangUp = (): Promise<never> => Promise.reject(new Error('it has gone'));
  for (let i = 0; i < 3; i++)
    await expect(identifier.identify(peer, enrolment, hangUp)).rejects.toThrow('it has gone');
  expect(activations.open).toBe(0);
});
