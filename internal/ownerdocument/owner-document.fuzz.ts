import { generateEd25519Key } from '../crypto/index.ts';
import type { NamedFuzzTarget } from '../testing/fuzz.ts';
import { parseDocument, signDocument } from './owner-document.ts';

const content = { clusterId: 'c'.repeat(32), epoch: 1, serial: 1, issuedMs: 1, endsMs: 2 };
const keyPem = generateEd25519Key();

export const targets: readonly NamedFuzzTarget[] = [
  {
    name: 'owner-document/document',
    codes: ['owner-document-'],
    seeds: [
      signDocument({ ...content, kind: 'policy', body: { configurationSha256: '0'.repeat(64) } }, keyPem),
      signDocument(
        { ...content, kind: 'readmission', body: { identity: `tpm-ek:${'0'.repeat(64)}`, removal: 1 } },
        keyPem,
      ),
    ],
    parse: parseDocument,
  },
];
