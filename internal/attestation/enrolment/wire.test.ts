import { describe, expect, test } from '@jest/globals';
import { decodeChallenge, decodeEnrolmentRequest, encodeChallenge, encodeEnrolmentRequest } from './wire.ts';

const challenge = {
  id: 'ab'.repeat(16),
  credentialBlob: Uint8Array.of(1, 2),
  encryptedSeed: Uint8Array.of(3),
};
const request = { endorsementKey: Uint8Array.of(1), attestationKey: Uint8Array.of(2, 3) };

test('decodeChallenge() and decodeEnrolmentRequest() return what was encoded, with and without a certificate', () => {
  expect(decodeChallenge(encodeChallenge(challenge))).toEqual(challenge);
  for (const each of [request, { ...request, endorsementCertificate: Uint8Array.of(9) }])
    expect(decodeEnrolmentRequest(encodeEnrolmentRequest(each))).toEqual(each);
});

describe('enrolment messages', () => {
  const bytes = encodeChallenge(challenge);
  test.each([
    { name: 'empty input', given: new Uint8Array() },
    { name: 'a truncated message', given: bytes.subarray(0, 20) },
    { name: 'a message with a trailing byte', given: Uint8Array.of(...bytes, 0) },
    { name: 'an enrolment request', given: encodeEnrolmentRequest(request) },
    {
      name: 'a challenge with an id that is not lower-case hex',
      given: encodeChallenge({ ...challenge, id: 'AB'.repeat(16) }),
    },
  ])('decodeChallenge() refuses $name', ({ given }) => {
    expect(() => decodeChallenge(given)).toThrow(
      expect.objectContaining({ code: 'enrol-message-malformed' }),
    );
  });
  test('decodeEnrolmentRequest() refuses a challenge', () => {
    expect(() => decodeEnrolmentRequest(bytes)).toThrow(
      expect.objectContaining({ code: 'enrol-message-malformed' }),
    );
  });
});
