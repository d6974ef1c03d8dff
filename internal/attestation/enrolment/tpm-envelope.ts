import { createCipheriv, createDecipheriv, createHash, randomBytes } from 'node:crypto';
import { Secret } from '../../secret/index.ts';
import { activationAnswer, type Challenge } from './credential-activations.ts';
import type { Endorsement } from './endorsement.ts';
import { makeCredential } from './make-credential.ts';
import { decodeChallenge, encodeChallenge } from './wire.ts';

const TAG_BYTES = 16;
const NONCE_BYTES = 12;
const SECRET_BYTES = 32;

/** A text that only one TPM can decrypt, and only if it also holds a certain attestation key. All fields are base64. */
export interface TpmEnvelope {
  /** Output of `encodeChallenge()`. */
  readonly challenge: string;
  readonly nonce: string;
  /** AES-256-GCM: the text, then the tag of 16 bytes. */
  readonly ciphertext: string;
}

/**
 * Encrypts a text for the TPM that holds the given endorsement key. The encryption key is the answer that this TPM
 * computes to a challenge (credential activation) in this session, so that a machine that only claims to have the
 * endorsement key cannot decrypt the text.
 */
export function encryptForTpm(
  text: Secret<Uint8Array>,
  endorsement: Endorsement,
  session: Uint8Array,
): TpmEnvelope {
  const secret = randomBytes(SECRET_BYTES);
  const id = randomBytes(16).toString('hex');
  const { endorsementKey, attestationKeyName } = endorsement;
  const challenge = { id, ...makeCredential(endorsementKey, attestationKeyName, secret) };
  const nonce = randomBytes(NONCE_BYTES);
  const key = activationAnswer(secret, id, boxSession(session));
  const cipher = createCipheriv('aes-256-gcm', key, nonce);
  const body = [cipher.update(text.reveal()), cipher.final()];
  return {
    challenge: Buffer.from(encodeChallenge(challenge)).toString('base64'),
    nonce: nonce.toString('base64'),
    ciphertext: Buffer.concat([...body, cipher.getAuthTag()]).toString('base64'),
  };
}

/**
 * Decrypts an envelope with the TPM of this machine.
 * @param answer `answerChallenge()` of this machine
 * @throws Error when the envelope was altered, or is for another TPM, attestation key or session
 */
export async function decryptWithTpm(
  box: TpmEnvelope,
  session: Uint8Array,
  answer: (challenge: Challenge, session: Uint8Array) => Promise<Uint8Array>,
): Promise<Secret<Uint8Array>> {
  const ciphertext = Buffer.from(box.ciphertext, 'base64');
  const nonce = Buffer.from(box.nonce, 'base64');
  if (nonce.length !== NONCE_BYTES || ciphertext.length < TAG_BYTES)
    throw new RangeError('malformed envelope');
  const challenge = decodeChallenge(Buffer.from(box.challenge, 'base64'));
  const key = await answer(challenge, boxSession(session));
  const decipher = createDecipheriv('aes-256-gcm', key, nonce);
  decipher.setAuthTag(ciphertext.subarray(ciphertext.length - TAG_BYTES));
  const body = decipher.update(ciphertext.subarray(0, ciphertext.length - TAG_BYTES));
  return new Secret(new Uint8Array(Buffer.concat([body, decipher.final()])));
}

/**
 * Derives another value from the session, so that an answer given during admission does not decrypt an
 * envelope.
 */
function boxSession(session: Uint8Array): Uint8Array {
  return createHash('sha512').update('cluster ticket box v1\0', 'ascii').update(session).digest();
}
