import type { NamedFuzzTarget } from '../../testing/fuzz.ts';
import { parsePolicy } from './parse.ts';
import { parseVariants } from './registry.ts';

const [pcr, launch] = ['ab'.repeat(32), 'cd'.repeat(48)];
const minimum = { bootloader: 3, tee: 0, snp: 8, microcode: 115 };
const policies = [
  {
    name: 'release-1',
    profile: 'measured',
    registers: {
      4: { expected: pcr },
      launch: { expected: [launch] },
      pcr7: { expected: pcr, warnOnly: true },
    },
    machines: ['tpm-ek:00ff'],
    tpm: { requiredPcrs: [0, 4] },
    'sev-snp': { minimumTcb: { Milan: minimum }, allowSmt: true, maxCollateralAgeDays: 30 },
    tdx: { minimumEvaluationNumber: 17, maxCollateralAgeDays: 30, mrConfigId: [launch] },
  },
  { name: 'ours', profile: 'identity', registers: {}, machines: 'any-proved', tpm: { requiredPcrs: [0] } },
];

/** The value of the bytes as JSON, or the bytes as text if they are not JSON. */
function valueOf(input: Uint8Array): unknown {
  const text = Buffer.from(input).toString('utf8');
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return text;
  }
}

export const targets: readonly NamedFuzzTarget[] = [
  {
    name: 'policy/document',
    codes: ['policy-'],
    seeds: policies.map((policy) => Buffer.from(JSON.stringify(policy))),
    parse: (input) => parsePolicy(valueOf(input)),
  },
  {
    name: 'policy/variants',
    codes: ['policy-'],
    seeds: [Buffer.from('["tpm","sev-snp","tdx+tpm"]')],
    parse: (input) => {
      const value = valueOf(input);
      return parseVariants(Array.isArray(value) ? value.map(String) : [String(value)]);
    },
  },
];
