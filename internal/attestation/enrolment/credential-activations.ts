import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import { AttestationError } from '../errors.ts';
import type { Endorsement } from './endorsement.ts';
import { enrolErrors, type EnrolErrorCode } from './errors.ts';
import { makeCredential, type Credential } from './make-credential.ts';

/** A credential for the machine to decrypt, with the id that its answer must name. */
export interface Challenge extends Credential {
  readonly id: string;
}

/** Limits of `CredentialActivations`. */
interface ActivationOptions {
  /** How long an answer may take. A hardware TPM needs about a second. */
  readonly lifetimeMs?: number;
  /** The largest number of open challenges. */
  readonly maxOpen?: number;
}

const LIFETIME_MS = 60_000;
const MAX_OPEN = 1024;
const SECRET_BYTES = 32;

/**
 * The answer that proves that the machine decrypted a challenge: an HMAC of the session with the secret as key. The secret is
 * never sent, and the answer is invalid in another session.
 */
export function activationAnswer(secret: Uint8Array, challengeId: string, session: Uint8Array): Uint8Array {
  const hmac = createHmac('sha256', secret).update('cluster enrol answer v1\0', 'ascii');
  return new Uint8Array(hmac.update(`${challengeId}\0`, 'utf8').update(session).digest());
}

/**
 * The open credential activations of a verifier. Each challenge can be answered once, whether the answer is right or wrong; a
 * second answer is refused.
 */
export class CredentialActivations {
  readonly #lifetimeMs: number;
  readonly #maxOpen: number;
  readonly #open = new Map<string, OpenChallenge>();

  constructor({ lifetimeMs = LIFETIME_MS, maxOpen = MAX_OPEN }: ActivationOptions = {}) {
    this.#lifetimeMs = lifetimeMs;
    this.#maxOpen = maxOpen;
  }

  /** Number of open challenges. */
  get open(): number {
    return this.#open.size;
  }

  /**
   * Creates a challenge that only a TPM with this endorsement key can answer, and only if it also holds the attestation
   * key.
   */
  challenge(endorsement: Endorsement, nowMs: number): Challenge {
    this.#forgetExpired(nowMs);
    if (this.#open.size >= this.#maxOpen) {
      throw refuse('enrol-challenge-busy', 'creating a challenge', `${this.#open.size} open challenges`);
    }
    const secret = randomBytes(SECRET_BYTES);
    const id = randomBytes(16).toString('hex');
    this.#open.set(id, { endorsement, secret, untilMs: nowMs + this.#lifetimeMs });
    return { id, ...makeCredential(endorsement.endorsementKey, endorsement.attestationKeyName, secret) };
  }

  /**
   * Verifies an answer for its session (the aTLS binding). Returns the endorsement, whose attestation key is now proved to be
   * in its TPM. Throws AttestationError `enrol-challenge-unknown` or `enrol-answer-wrong`.
   */
  verifyAnswer(
    answered: { readonly id: string; readonly answer: Uint8Array; readonly session: Uint8Array },
    nowMs: number,
  ): Endorsement {
    this.#forgetExpired(nowMs);
    const challenge = this.#open.get(answered.id);
    if (challenge === undefined)
      throw refuse('enrol-challenge-unknown', 'verifying an answer', 'an unknown challenge');
    this.#open.delete(answered.id);
    const expected = activationAnswer(challenge.secret, answered.id, answered.session);
    const isRight = answered.answer.length === expected.length && timingSafeEqual(answered.answer, expected);
    if (!isRight) throw refuse('enrol-answer-wrong', 'verifying an answer', 'a wrong answer');
    return challenge.endorsement;
  }

  /** Removes a challenge that will not be answered. */
  forget(id: string): void {
    this.#open.delete(id);
  }

  #forgetExpired(nowMs: number): void {
    for (const [id, { untilMs }] of this.#open) if (untilMs < nowMs) this.#open.delete(id);
  }
}

interface OpenChallenge {
  readonly endorsement: Endorsement;
  readonly secret: Uint8Array;
  readonly untilMs: number;
}

function refuse(code: EnrolErrorCode, doing: string, actual: string): Error {
  return new AttestationError(enrolErrors, code, doing, { actual });
}
