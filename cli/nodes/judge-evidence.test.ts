import { create } from '@bufbuild/protobuf';
import { describe, expect, test } from '@jest/globals';
import { generateKeyPairSync } from 'node:crypto';
import { NodeSchema } from '../../joinservice/curatorproto/gen/curator_pb.js';
import { lockedValue } from '../../internal/attestation/index.ts';
import { parseClusterConfig } from '../../internal/config/index.ts';
import { createSoftKey } from '../../internal/testing/tpm/fake-tpm.ts';
import { forgeEvidence, nameHexOf } from '../../internal/testing/tpm/tpm-evidence.ts';
import { judge } from './judge-evidence.ts';
import { renderReport } from './verify-report.ts';

const clusterId = 'a1'.repeat(16);
const binding = new Uint8Array(64).fill(7);
const key = createSoftKey();
const identity = `tpm-ek:${'ab'.repeat(32)}`;
const ZERO = new Uint8Array(32);
const KERNEL = 'cd'.repeat(32);

function configWith(expected = KERNEL) {
  const attestation = {
    firstContact: 'fingerprint',
    variants: ['tpm'],
    policy: {
      name: 'ours',
      profile: 'identity',
      machines: 'any-proved',
      registers: { 4: { expected } },
      tpm: { requiredPcrs: [4], eventLog: 'optional', loggedPcrs: [] },
    },
  };
  return parseClusterConfig(JSON.stringify({ version: 1, name: 'test', attestation }), 'cluster.yaml');
}

const publicKey = generateKeyPairSync('ed25519').publicKey.export({ type: 'spki', format: 'der' });
const node = create(NodeSchema, {
  nodeId: 'node-1',
  name: 'c1',
  publicKey: new Uint8Array(publicKey),
  admission: { identity, variant: 'tpm', akName: nameHexOf(key), proof: 'pinned', profile: 'identity' },
});

const locked = (baseline: Uint8Array, to = clusterId): Uint8Array => lockedValue(baseline, to);

/** The result of `cluster verify` for a node whose PCRs 4 and 15 have these values. */
function verify(pcr4: string, pcr15: Uint8Array, options: { config?: ReturnType<typeof configWith> } = {}) {
  const pcrValues = new Map([
    [4, new Uint8Array(Buffer.from(pcr4, 'hex'))],
    [15, pcr15],
  ]);
  return judge({
    node,
    config: options.config ?? configWith(),
    clusterId,
    collateral: {},
    contradictions: [],
    variant: 'tpm',
    evidence: forgeEvidence({ binding, key, pcrValues }),
    binding,
    nowMs: 0,
  });
}

describe('cluster verify', () => {
  test('accepts the machine on record with expected registers, bound to this cluster, and does not claim that its manufacturer endorsed it', async () => {
    const report = await verify(KERNEL, locked(ZERO));
    expect(report).toMatchObject({ verdict: 'verified', identity, proof: 'pinned', proofFrom: 'record' });
    const shown = renderReport({ ...report, pin: 'completed' });
    expect(shown).toContain('approved or listed key, manufacturer not verified (on record)');
    expect(shown).not.toContain('endorsed');
    expect(report.registers).toContainEqual({
      name: 'pcr4',
      expected: [KERNEL],
      actual: KERNEL,
      verdict: 'as expected',
    });
  });

  const refused = [
    { name: 'with other software', given: () => verify('ee'.repeat(32), locked(ZERO)) },
    { name: 'without a node lock', given: () => verify(KERNEL, ZERO) },
    { name: 'bound to another cluster', given: () => verify(KERNEL, locked(ZERO, 'b2'.repeat(16))) },
    {
      name: 'that does not match a changed configuration',
      given: () => verify(KERNEL, locked(ZERO), { config: configWith('ee'.repeat(32)) }),
    },
  ];
  test.each(refused)('refuses a node $name', async ({ given }) => {
    const report = await given();
    expect(report).toMatchObject({
      verdict: 'refused',
      code: 'attestation-register-mismatch',
      meaning: expect.stringMatching(/none of its reference values/) as unknown,
      fix: expect.stringMatching(/cluster attest measure/) as unknown,
    });
    expect(report.checks.at(-1)?.name).toMatch(/^register-pcr\d+$/);
    expect(report.registers.filter(({ verdict }) => verdict === 'differs')).toHaveLength(1);
    expect(report.registers.every(({ actual }) => actual !== '')).toBe(true);
  });

  test('refuses malformed evidence and shows none of its registers', async () => {
    const report = await judge({
      node,
      config: configWith(),
      clusterId,
      collateral: {},
      contradictions: [],
      variant: 'tpm',
      evidence: new Uint8Array(9),
      binding,
      nowMs: 0,
    });
    expect(report).toMatchObject({ verdict: 'refused', code: 'quote-document-malformed' });
    expect(report.registers.map(({ verdict }) => verdict)).toEqual(['missing', 'missing']);
  });
});
