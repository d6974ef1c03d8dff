import { createHash, sign, verify, type KeyObject } from 'node:crypto';
import { checkBinding } from '../appraise.ts';
import type { Secret } from '../../secret/index.ts';
import type { Check, Issuer, ValidationContext, Validator, Verdict } from '../verdict.ts';
import { encodeOwnerKeyEvidence, parseOwnerKeyEvidence, signedMessage } from './evidence.ts';
import { OwnerKeyError } from './errors.ts';
import { ownerPubKeyFromRaw, rawFromOwnerKey } from './pub-key.ts';

/** Shows that the operator's CLI holds the owner key: a signature over the session's binding (RFC 8032 Ed25519). */
export class OwnerKeyIssuer implements Issuer {
  readonly variant = 'owner-key';
  readonly #privKey: Secret<KeyObject>;
  readonly #pubKey: Uint8Array;

  /** Throws `owner-key-invalid` unless the key is Ed25519. */
  constructor(options: { readonly privKey: Secret<KeyObject> }) {
    this.#privKey = options.privKey;
    this.#pubKey = rawFromOwnerKey(options.privKey.reveal());
  }

  issue(binding: Uint8Array, signal: AbortSignal): Promise<Uint8Array> {
    return Promise.try(() => {
      signal.throwIfAborted();
      checkBinding(binding);
      const signature = sign(null, signedMessage(binding), this.#privKey.reveal());
      return encodeOwnerKeyEvidence({ pubKey: this.#pubKey, signature });
    });
  }
}

/** Accepts a caller that holds one of the owner keys. Policy and collateral say nothing about owners. */
export class OwnerKeyValidator implements Validator {
  readonly variant = 'owner-key';
  readonly #pubKeys: ReadonlyMap<string, KeyObject>;

  /** `ownerKeys`: raw 32-byte Ed25519 public keys, at least one; throws `owner-key-invalid`. */
  constructor(options: { readonly ownerKeys: readonly Uint8Array[] }) {
    if (options.ownerKeys.length === 0) {
      throw new OwnerKeyError('owner-key-invalid', 'configuring the owner: no key is given');
    }
    this.#pubKeys = new Map(options.ownerKeys.map((raw) => [hexOf(raw), ownerPubKeyFromRaw(raw)]));
  }

  validate(evidence: Uint8Array, binding: Uint8Array, context: ValidationContext): Promise<Verdict> {
    return Promise.try(() => this.#verify(evidence, binding, context.policy.version));
  }

  #verify(evidence: Uint8Array, binding: Uint8Array, policyVersion: string): Verdict {
    checkBinding(binding);
    const { pubKey, signature } = parseOwnerKeyEvidence(evidence);
    const actual = hexOf(pubKey);
    const expected = [...this.#pubKeys.keys()].join(' or ');
    const known = this.#pubKeys.get(actual);
    if (known === undefined) {
      throw new OwnerKeyError('owner-key-unknown', 'validating the owner key', { expected, actual });
    }
    const checks: Check[] = [{ name: 'unknown', outcome: 'pass', expected, actual }];
    if (!verify(null, signedMessage(binding), known, signature)) {
      throw new OwnerKeyError('owner-key-signature', 'validating the owner key', { checks });
    }
    checks.push({ name: 'signature', outcome: 'pass' });
    return {
      variant: 'owner-key',
      accepted: true,
      checks,
      measurements: new Map(),
      machineIdentity: { kind: 'owner-key', id: fingerprintOf(pubKey), proof: 'pinned' },
      claims: {},
      warnings: ['an owner key says who calls, nothing about the machine it calls from'],
      policyVersion,
    };
  }
}

/** SHA-256 of the raw public key, lower-case hex: how an owner is named in records. */
function fingerprintOf(pubKey: Uint8Array): string {
  return createHash('sha256').update(pubKey).digest('hex');
}

function hexOf(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('hex');
}
