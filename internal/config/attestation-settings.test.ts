import { describe, expect, test } from '@jest/globals';
import { createHash } from 'node:crypto';
import { stringify } from 'yaml';
import { parsePolicy } from '../attestation/policy/index.ts';
import { createCaCertPem, generateKeyPem } from '../pki/index.ts';
import {
  attestationTemplate,
  attestationSettings,
  canonicalJson,
  clusterConfigJsonSchema,
  parseClusterConfig,
} from './index.ts';
import { ConfigError, renderClusterConfig, type Problem } from './index.ts';

const rootPem = await createCaCertPem({ keyPem: generateKeyPem(), commonName: 'manufacturer', nowMs: 0 });
const key = 'ab'.repeat(32);
const tpmPolicy = { name: 'p', profile: 'identity', machines: 'any-proved', tpm: { requiredPcrs: [0] } };
const endorsed = { variants: ['tpm'], manufacturers: { endorsementKeys: [key] }, policy: tpmPolicy };

function configOf(attestation: unknown) {
  return parseClusterConfig(stringify({ version: 1, name: 'prod', attestation }), 'cluster.yaml');
}

function problemsOf(attestation: unknown): readonly Problem[] {
  try {
    configOf(attestation);
  } catch (error) {
    if (error instanceof ConfigError) return error.details['problems'] as readonly Problem[];
    throw error;
  }
  return [];
}

describe('the section attestation', () => {
  test.each([
    { name: 'a file without the section', given: undefined, path: 'attestation' },
    { name: 'an empty list of variants', given: { ...endorsed, variants: [] }, path: 'attestation.variants' },
    {
      name: 'an unknown variant',
      given: { ...endorsed, variants: ['dummy'] },
      path: 'attestation.variants.0',
    },
    {
      name: 'a variant that is only for the owner',
      given: { ...endorsed, variants: ['owner-key'] },
      path: 'attestation.variants.0',
    },
    {
      name: 'a repeated variant',
      given: { ...endorsed, variants: ['tpm', 'tpm'] },
      path: 'attestation.variants',
    },
    {
      name: 'a TPM without a trusted endorsement CA or key fingerprint',
      given: { ...endorsed, manufacturers: {} },
      path: 'attestation.manufacturers',
    },
    { name: 'a TPM without a policy', given: { ...endorsed, policy: undefined }, path: 'attestation.policy' },
    {
      name: 'a policy without the section of a variant',
      given: { ...endorsed, variants: ['tpm', 'tdx'] },
      path: 'attestation.policy',
    },
    {
      name: 'a policy that requires no property',
      given: { ...endorsed, policy: { ...tpmPolicy, machines: 'any' } },
      path: 'attestation.policy',
    },
    {
      name: 'an unknown key of the policy',
      given: { ...endorsed, policy: { ...tpmPolicy, tpm: { requiredPcrs: [0], allowAll: true } } },
      path: 'attestation.policy.tpm.allowAll',
    },
    {
      name: 'a policy with a PCR that every process can reset',
      given: { ...endorsed, policy: { ...tpmPolicy, registers: { pcr16: { expected: key } } } },
      path: 'attestation.policy.registers.pcr16',
    },
    {
      name: 'machine-key as the only variant without fingerprints',
      given: { variants: ['machine-key'] },
      path: 'attestation.firstContact',
    },
    {
      name: 'a root certificate that does not parse',
      given: { ...endorsed, manufacturers: { roots: [rootPem.replace('MI', 'MJ')] } },
      path: 'attestation.manufacturers.roots.0',
    },
    {
      name: 'a resettable PCR for the node lock',
      given: { ...endorsed, lockPcr: 16 },
      path: 'attestation.lockPcr',
    },
  ])('parseClusterConfig() refuses $name and reports the position', ({ given, path }) => {
    expect(problemsOf(given).map((problem) => problem.path)).toContain(path);
  });

  test.each([
    {
      name: 'an unknown profile',
      policy: { ...tpmPolicy, profile: 'none' },
      says: /\.profile is "none"; it must be one of measured, identity$/,
    },
    {
      name: 'machines of another type',
      policy: { ...tpmPolicy, machines: 7 },
      says: /\.machines is 7; it must be /,
    },
    {
      name: 'a PCR that is no number',
      policy: { ...tpmPolicy, tpm: { requiredPcrs: ['a'] } },
      says: /\.0 is "a"; it must be a number$/,
    },
    {
      name: 'a missing key',
      policy: { ...tpmPolicy, tpm: {} },
      says: /\.requiredPcrs is missing; it must be a list/,
    },
  ])('describes a malformed policy in our own words: $name', ({ policy, says }) => {
    const messages = problemsOf({ ...endorsed, policy }).map(({ message }) => message);
    expect(messages).toContainEqual(expect.stringMatching(says));
    expect(messages.join()).not.toMatch(/Invalid|expected .* received/);
  });

  test('keeps the policy as it is written, so that the policy has the same version on all machines', () => {
    const written = { ...endorsed, policy: { ...tpmPolicy, tdx: tdxSection } };
    const config = configOf(written);
    const stored = parseClusterConfig(canonicalJson(config), 'the cluster');
    const version = parsePolicy(written.policy).version;
    for (const { attestation } of [config, stored]) {
      expect(parsePolicy(attestationSettings(attestation).policyInput).version).toBe(version);
    }
  });

  test('returns the fingerprints of trusted keys', () => {
    const der = Buffer.from(rootPem.replace(/-----[^-]+-----|\s/g, ''), 'base64');
    const { attestation } = configOf({ ...endorsed, manufacturers: { roots: [rootPem] } });
    const { trust, variants, lockPcr } = attestationSettings(attestation);
    expect([...trust.roots]).toEqual([createHash('sha256').update(der).digest('hex')]);
    expect(trust.authorities.map((each) => Buffer.from(each))).toEqual([der]);
    expect({ variants, lockPcr }).toEqual({ variants: ['tpm'], lockPcr: 15 });
  });

  test('is written completely into a new configuration', () => {
    const { attestation } = parseClusterConfig(renderClusterConfig({ name: 'prod' }), 'cluster.yaml');
    // The variant `machine-key` is not accepted beside TPMs unless the operator requests it.
    expect(attestation).toMatchObject({ variants: ['tpm'], firstContact: 'fingerprint' });
    expect(renderClusterConfig({ name: 'prod' })).toContain('firstContact: fingerprint');
  });

  test.each([[['tpm']], [['machine-key']], [['tpm', 'machine-key']]] as const)(
    'the generated section is valid for %j',
    (variants) => {
      expect(configOf(attestationTemplate(variants)).attestation.variants).toEqual(variants);
    },
  );

  test('the JSON Schema describes the section attestation, including the policy', () => {
    const schema = JSON.stringify(clusterConfigJsonSchema());
    for (const word of ['machine-key', 'firstContact', 'requiredPcrs', 'minimumEvaluationNumber']) {
      expect(schema).toContain(word);
    }
  });
});

const tdxSection = { minimumEvaluationNumber: 17, maxCollateralAgeDays: 30 };
