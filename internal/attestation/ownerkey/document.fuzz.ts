import type { NamedFuzzTarget } from '../../testing/fuzz.ts';
import { encodeDocument, parseDocument } from './document.ts';

export const targets: readonly NamedFuzzTarget[] = [
  {
    name: 'owner-key/document',
    codes: ['owner-key-malformed'],
    seeds: [encodeDocument({ pubKey: new Uint8Array(32).fill(9), signature: new Uint8Array(64).fill(1) })],
    parse: parseDocument,
  },
];
