import { describe, expect, test } from '@jest/globals';
import { decodeChallenge, decodeEnrolmentRequest, encodeChallenge, encodeEnrolmentRequest } from './wire.ts';

const challenge = {
  id: 'ab'.repeat(16),
  credentialBlob: Uint8Array.of(1, 2),
  encryptedSeed: Uint8Array.of(3),
};
const request = { endorsementKey: Uint8Array.of(1), attestationKey: Uint8Array.of(2, 3) };

test('messages are decoded as they were encoded, with and without a certificate', () => {
  expect(decodeChallenge(encodeChallenge(challenge))).toEqual(challenge);
  for (const each of [request, { ...request, endorsementCertificate: Uint8Array.of(9) }])
    expect(decodeEnrolmentRequest(encodeEnrolmentRequest(each))).toEqual(each);
});

describe('decoding refuses', () => {
  const bytes = encodeChallenge(challenge);
  test.each([
    { name: 'nothing', given: new Uint8Array() },
    { name: 'half', given: bytes.subarray(0, 20) },
    { name: 'one byte more', given: Uint8Array.of(...bytes, 0) },
    { name: 'the other message', given: encodeEnrolmentRequest(request) },
    { name: 'an id of another form', given: encodeChallenge({ ...challenge, id: 'AB'.repeat(16) }) },
  ])('$name as a challenge', ({ given }) => {
    expect(() => decodeChallenge(given)).toThrow(
      expect.objectContaining({ code: 'enrol-message-malformed' }),
    );
  });
  test('a challenge as a request', () => {
    expect(() => decodeEnrolmentRequest(bytes)).toThrow(
      expect.objectContaining({ code: 'enrol-message-malformed' }),
    );
  });
});
