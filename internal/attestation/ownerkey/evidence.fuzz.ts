import type { NamedFuzzTarget } from '../../testing/fuzz.ts';
import { parseOwnerKeyEvidence } from './owner-key.ts';

export const targets: readonly NamedFuzzTarget[] = [
  {
    name: 'owner-key/document',
    codes: ['owner-key-malformed'],
    seeds: [Buffer.concat([Buffer.of(1), Buffer.alloc(32, 9), Buffer.alloc(64, 1)])],
    parse: parseOwnerKeyEvidence,
  },
];
