import {
  constants,
  createDecipheriv,
  createHash,
  createHmac,
  generateKeyPairSync,
  privateDecrypt,
} from 'node:crypto';
import { describe, expect, test } from '@jest/globals';
import { createSoftKey } from '../../testing/tpm/fake-tpm.ts';
import { CheckList } from '../check-list.ts';
import { kdfA, nameOf, parsePublic, WireReader, WireWriter } from '../../tpm/index.ts';
import { CredentialActivations, activationAnswer } from './credential-activations.ts';
import type { Endorsement } from './endorsement.ts';
import { enrolErrors } from './errors.ts';
import { makeCredential } from './make-credential.ts';

const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');
const session = new Uint8Array(64).fill(1);

/** An EK whose private half the test has: TPMT_PUBLIC of template L-1 around an RSA key. */
function createSoftEndorsementKey() {
  const { publicKey, privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  const modulus = Buffer.from(publicKey.export({ format: 'jwk' }).n ?? '', 'base64url');
  const publicArea = new WireWriter()
    .u16(0x0001)
    .u16(0x000b)
    .u32(0x000300b2)
    .sized(new Uint8Array(32))
    .u16(0x0006)
    .u16(128)
    .u16(0x0043)
    .u16(0x0010)
    .u16(2048)
    .u32(0)
    .sized(modulus)
    .finish();
  return { endorsementKey: parsePublic(publicArea), privateKey };
}

const { endorsementKey, privateKey } = createSoftEndorsementKey();
const attestationKeyName = nameOf(parsePublic(createSoftKey().publicArea));
const endorsement: Endorsement = {
  endorsementKeyId: 'ek',
  endorsementKey,
  attestationKeyName,
  attestationKeyNameHex: hex(attestationKeyName),
  hardware: {},
  checks: new CheckList(enrolErrors, 'testing'),
};

/** Performs TPM2_ActivateCredential in software. */
function openCredential(blob: Uint8Array, encryptedSeed: Uint8Array, name: Uint8Array): Uint8Array {
  const padding = {
    padding: constants.RSA_PKCS1_OAEP_PADDING,
    oaepHash: 'sha256',
    oaepLabel: Buffer.from('IDENTITY\0'),
  };
  const seed = privateDecrypt({ key: privateKey, ...padding }, encryptedSeed);
  const reader = new WireReader(blob, 'a credential');
  const integrity = reader.sized('integrity', 64);
  const encrypted = reader.bytes(reader.remaining, 'identity');
  const hmacKey = kdfA({ hash: 'sha256', key: seed, label: 'INTEGRITY', bits: 256 });
  const expected = createHmac('sha256', hmacKey).update(encrypted).update(name).digest();
  if (!expected.equals(integrity)) throw new Error('TPM_RC_INTEGRITY');
  const key = kdfA({ hash: 'sha256', key: seed, label: 'STORAGE', contextU: name, bits: 128 });
  const cipher = createDecipheriv('aes-128-cfb', key, Buffer.alloc(16));
  return new WireReader(Buffer.concat([cipher.update(encrypted), cipher.final()]), 'a secret').sized(
    'secret',
    32,
  );
}

describe('makeCredential()', () => {
  const secret = new Uint8Array(32).fill(5);

  test('creates a credential that opens with the endorsement key and the Name it was made for', () => {
    const { credentialBlob, encryptedSeed } = makeCredential(endorsementKey, attestationKeyName, secret);
    expect(hex(openCredential(credentialBlob, encryptedSeed, attestationKeyName))).toBe(hex(secret));
  });

  test('creates a credential that does not open for another Name or with any byte altered', () => {
    const { credentialBlob, encryptedSeed } = makeCredential(endorsementKey, attestationKeyName, secret);
    const other = nameOf(parsePublic(createSoftKey().publicArea));
    expect(() => openCredential(credentialBlob, encryptedSeed, other)).toThrow('TPM_RC_INTEGRITY');
    for (let at = 2; at < credentialBlob.length; at++) {
      const altered = credentialBlob.slice();
      altered[at] = (altered[at] ?? 0) ^ 1;
      expect(() => openCredential(altered, encryptedSeed, attestationKeyName)).toThrow('TPM_RC_INTEGRITY');
    }
  });

  test('accepts secrets up to the size of the Name hash', () => {
    expect(() => makeCredential(endorsementKey, attestationKeyName, new Uint8Array(33))).toThrow(RangeError);
    expect(() => makeCredential(endorsementKey, attestationKeyName, new Uint8Array())).toThrow(RangeError);
  });
});

describe('CredentialActivations', () => {
  /** Opens a challenge as the machine would. */
  function answerTo(challenge: ReturnType<CredentialActivations['challenge']>, to = session): Uint8Array {
    const secret = openCredential(challenge.credentialBlob, challenge.encryptedSeed, attestationKeyName);
    return activationAnswer(secret, challenge.id, to);
  }

  test('verifyAnswer() accepts the right answer and returns the endorsement', () => {
    const activations = new CredentialActivations();
    const challenge = activations.challenge(endorsement, 0);
    const answered = { id: challenge.id, answer: answerTo(challenge), session };
    expect(activations.verifyAnswer(answered, 10)).toBe(endorsement);
    expect(activations.open).toBe(0);
  });

  test('verifyAnswer() refuses the same answer a second time', () => {
    const activations = new CredentialActivations();
    const challenge = activations.challenge(endorsement, 0);
    const answered = { id: challenge.id, answer: answerTo(challenge), session };
    activations.verifyAnswer(answered, 10);
    expect(() => activations.verifyAnswer(answered, 20)).toThrow(
      expect.objectContaining({ code: 'enrol-challenge-unknown' }),
    );
  });

  const wrong = [
    { name: 'in another session', change: { session: new Uint8Array(64).fill(2) } },
    { name: 'of the wrong length', change: { answer: new Uint8Array(31) } },
    { name: 'that was guessed', change: { answer: new Uint8Array(32) } },
  ];
  test.each(wrong)(
    'verifyAnswer() refuses an answer $name, and then also the right answer to that challenge',
    ({ change }) => {
      const activations = new CredentialActivations();
      const challenge = activations.challenge(endorsement, 0);
      const right = { id: challenge.id, answer: answerTo(challenge), session };
      expect(() => activations.verifyAnswer({ ...right, ...change }, 10)).toThrow(
        expect.objectContaining({ code: 'enrol-answer-wrong' }),
      );
      expect(() => activations.verifyAnswer(right, 10)).toThrow(
        expect.objectContaining({ code: 'enrol-challenge-unknown' }),
      );
    },
  );

  test('verifyAnswer() refuses the answer to another challenge', () => {
    const activations = new CredentialActivations();
    const [one, two] = [activations.challenge(endorsement, 0), activations.challenge(endorsement, 0)];
    expect(() => activations.verifyAnswer({ id: two.id, answer: answerTo(one), session }, 10)).toThrow(
      expect.objectContaining({ code: 'enrol-answer-wrong' }),
    );
  });

  test('challenge() drops expired challenges, and refuses a challenge above the limit', () => {
    const activations = new CredentialActivations({ lifetimeMs: 100, maxOpen: 2 });
    const old = activations.challenge(endorsement, 0);
    activations.challenge(endorsement, 50);
    expect(() => activations.challenge(endorsement, 60)).toThrow(
      expect.objectContaining({ code: 'enrol-challenge-busy' }),
    );
    activations.challenge(endorsement, 120);
    expect(activations.open).toBe(2);
    expect(() => activations.verifyAnswer({ id: old.id, answer: answerTo(old), session }, 120)).toThrow(
      expect.objectContaining({ code: 'enrol-challenge-unknown' }),
    );
  });

  test('an expired challenge frees its slot, and verifyAnswer() refuses a late answer to it', () => {
    const activations = new CredentialActivations({ maxOpen: 1 });
    const left = activations.challenge(endorsement, 0);
    activations.forget(left.id);
    const next = activations.challenge(endorsement, 0);
    expect(() => activations.verifyAnswer({ id: left.id, answer: answerTo(left), session }, 0)).toThrow(
      expect.objectContaining({ code: 'enrol-challenge-unknown' }),
    );
    expect(activations.open).toBe(1);
    expect(next.id).not.toBe(left.id);
  });
});

test('activationAnswer() depends on both the challenge and the session', () => {
  const secret = new Uint8Array(32);
  const answers = [
    activationAnswer(secret, 'a', session),
    activationAnswer(secret, 'b', session),
    activationAnswer(secret, 'a', new Uint8Array(64)),
    activationAnswer(createHash('sha256').digest(), 'a', session),
  ].map(hex);
  expect(new Set(answers).size).toBe(answers.length);
});
