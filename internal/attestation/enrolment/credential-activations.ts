import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import { AttestationError } from '../errors.ts';
import type { Endorsement } from './endorsement.ts';
import { enrolErrors, type EnrolErrorCode } from './errors.ts';
import { makeCredential, type Credential } from './make-credential.ts';

/** A credential with the number under which its answer is expected. */
export interface Challenge extends Credential {
  readonly id: string;
}

export interface ActivationOptions {
  /** How long an answer may take: a hardware TPM needs a second, the way there and back some more. */
  readonly lifetimeMs?: number;
  /** Challenges that may be open at once. */
  readonly maxOpen?: number;
}

const LIFETIME_MS = 60_000;
const MAX_OPEN = 1024;
const SECRET_BYTES = 32;

/**
 * The answer that proves a challenge opened: an HMAC under the secret over the session it is given in. The secret itself
 * never travels back, and an answer is of no use in another session.
 */
export function activationAnswer(secret: Uint8Array, challengeId: string, session: Uint8Array): Uint8Array {
  const hmac = createHmac('sha256', secret).update('cluster enrol answer v1\0', 'ascii');
  return new Uint8Array(hmac.update(`${challengeId}\0`, 'utf8').update(session).digest());
}

/**
 * Open credential activations. Each challenge is answered once, right or wrong, and forgotten: a second answer, also the
 * same one again, is refused. The one writer is whoever admits machines.
 */
export class CredentialActivations {
  readonly #lifetimeMs: number;
  readonly #maxOpen: number;
  readonly #open = new Map<string, OpenChallenge>();

  constructor({ lifetimeMs = LIFETIME_MS, maxOpen = MAX_OPEN }: ActivationOptions = {}) {
    this.#lifetimeMs = lifetimeMs;
    this.#maxOpen = maxOpen;
  }

  /** How many answers are waited for. */
  get open(): number {
    return this.#open.size;
  }

  /** Makes a challenge that only the TPM of this endorsement can answer, while it holds this attestation key. */
  challenge(endorsement: Endorsement, nowMs: number): Challenge {
    this.#forgetExpired(nowMs);
    if (this.#open.size >= this.#maxOpen) {
      throw refuse('enrol-challenge-busy', 'making a challenge', `${this.#open.size} are open`);
    }
    const secret = randomBytes(SECRET_BYTES);
    const id = randomBytes(16).toString('hex');
    this.#open.set(id, { endorsement, secret, untilMs: nowMs + this.#lifetimeMs });
    return { id, ...makeCredential(endorsement.endorsementKey, endorsement.attestationKeyName, secret) };
  }

  /**
   * Takes an answer for the session it was given in (its aTLS binding) and answers whose attestation key is now proved to
   * live in whose TPM.
   */
  verifyAnswer(
    answered: { readonly id: string; readonly answer: Uint8Array; readonly session: Uint8Array },
    nowMs: number,
  ): Endorsement {
    this.#forgetExpired(nowMs);
    const challenge = this.#open.get(answered.id);
    if (challenge === undefined)
      throw refuse('enrol-challenge-unknown', 'taking an answer', 'an unknown challenge');
    this.#open.delete(answered.id);
    const expected = activationAnswer(challenge.secret, answered.id, answered.session);
    const isRight = answered.answer.length === expected.length && timingSafeEqual(answered.answer, expected);
    if (!isRight) throw refuse('enrol-answer-wrong', 'taking an answer', 'another answer');
    return challenge.endorsement;
  }

  /** Nobody will answer it any more: its place is for another one. */
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
