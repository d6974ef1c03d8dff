import type { NamedFuzzTarget } from '../../testing/fuzz.ts';
import { decodeChallenge, decodeEnrolmentRequest, encodeChallenge, encodeEnrolmentRequest } from './wire.ts';

const codes = ['enrol-'];
const key = new Uint8Array(120).fill(3);

export const targets: readonly NamedFuzzTarget[] = [
  {
    name: 'enrol/request',
    codes,
    seeds: [
      encodeEnrolmentRequest({ endorsementKey: key, attestationKey: key }),
      encodeEnrolmentRequest({ endorsementKey: key, attestationKey: key, endorsementCertificate: key }),
    ],
    parse: decodeEnrolmentRequest,
  },
  {
    name: 'enrol/challenge',
    codes,
    seeds: [encodeChallenge({ id: 'ab'.repeat(16), credentialBlob: key, encryptedSeed: key })],
    parse: decodeChallenge,
  },
];
