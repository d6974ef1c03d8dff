import { generateKeyPairSync } from 'node:crypto';
import { bindingOfVerifyRequest, lockedValue } from '../../internal/attestation/index.ts';
import { nodeIdOf } from '../../internal/pki/index.ts';
import { createSoftKey } from '../../internal/testing/tpm/fake-tpm.ts';
import { forgeEvidence, nameHexOf } from '../../internal/testing/tpm/tpm-evidence.ts';

const ZERO = new Uint8Array(32);

/** A machine with its own keys, and the record of a node that names it. */
export function createMachine(digit: string, name = 'n2') {
  const key = createSoftKey();
  const publicKey = generateKeyPairSync('ed25519').publicKey.export({ type: 'spki', format: 'der' });
  const identity = `tpm-ek:${digit.repeat(64)}`;
  const admission = { identity, variant: 'tpm', akName: nameHexOf(key), proof: 'endorsed' };
  const record = { nodeId: nodeIdOf(publicKey), name, publicKey: new Uint8Array(publicKey), admission };
  return { key, record };
}

/** A configuration whose policy accepts every TPM on record, with this reference value of PCR 4 if there is one. */
export function evidenceConfiguration({
  inventory = [],
  pcr4,
}: { readonly inventory?: readonly object[]; readonly pcr4?: string } = {}): string {
  const attestation = {
    firstContact: 'fingerprint',
    variants: ['tpm'],
    policy: {
      ...{ name: 'ours', profile: 'identity', machines: 'any-proved' },
      ...(pcr4 !== undefined && { registers: { 4: { expected: pcr4 } } }),
      tpm: { requiredPcrs: [4], eventLog: 'optional', loggedPcrs: [] },
    },
  };
  const join = { policy: 'inventory', inventory };
  return JSON.stringify({ version: 1, name: 'prod', attestation, join });
}

/** What a node of this cluster answers when it is asked for evidence: PCR 4 is zero, and the machine is locked. */
export function evidenceAnswer(
  {
    key,
    record,
  }: Pick<ReturnType<typeof createMachine>, 'key'> & { readonly record: { readonly nodeId: string } },
  { clusterId, nonce }: { readonly clusterId: string; readonly nonce: Uint8Array },
): { readonly variant: string; readonly evidence: Uint8Array } {
  const binding = bindingOfVerifyRequest({ clusterId, nodeId: record.nodeId, nonce });
  return evidenceFor(key, { clusterId, binding });
}

/** The evidence of a locked machine whose PCR 4 is zero. */
export function evidenceFor(
  key: ReturnType<typeof createMachine>['key'],
  { clusterId, binding }: { readonly clusterId: string; readonly binding: Uint8Array },
): { readonly variant: string; readonly evidence: Uint8Array } {
  const pcrValues = new Map([
    [4, ZERO],
    [15, lockedValue(ZERO, clusterId)],
  ]);
  return { variant: 'tpm', evidence: forgeEvidence({ binding, key, pcrValues }) };
}
