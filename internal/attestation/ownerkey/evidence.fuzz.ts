import type { NamedFuzzTarget } from '../../testing/fuzz.ts';
import { encodeOwnerKeyEvidence, parseOwnerKeyEvidence } from './evidence.ts';

export const targets: readonly NamedFuzzTarget[] = [
  {
    name: 'owner-key/document',
    codes: ['owner-key-malformed'],
    seeds: [
      encodeOwnerKeyEvidence({ pubKey: new Uint8Array(32).fill(9), signature: new Uint8Array(64).fill(1) }),
    ],
    parse: parseOwnerKeyEvidence,
  },
];
