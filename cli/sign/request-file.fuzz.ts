import { generateEd25519Key } from '../../internal/crypto/index.ts';
import type { NamedFuzzTarget } from '../../internal/testing/fuzz.ts';
import { encodeRequest, encodeSignedFile, parseRequest, parseSignedFile } from './request-file.ts';

const clusterId = 'c'.repeat(32);
const documents = [new Uint8Array([1, 2, 3])];
const readmission = { identity: `tpm-ek:${'0'.repeat(64)}`, removal: 1 };

/** Requests for a signature and signed files, which anyone on their way can change. */
export const targets: readonly NamedFuzzTarget[] = [
  {
    name: 'sign/request',
    codes: ['sign-'],
    seeds: [
      encodeRequest(
        {
          ...{ clusterId, epoch: 1, requestedMs: 1, documents },
          proposals: [
            { kind: 'readmission', body: readmission },
            { kind: 'policy', before: '{"a":1}', after: '{"a":2}' },
          ],
        },
        generateEd25519Key(),
      ),
    ].map((text) => Buffer.from(text, 'utf8')),
    parse: parseRequest,
  },
  {
    name: 'sign/signed-file',
    codes: ['sign-'],
    seeds: [Buffer.from(encodeSignedFile({ clusterId, documents }), 'utf8')],
    parse: parseSignedFile,
  },
];
