import { createHash, verify, type KeyObject } from 'node:crypto';
import type { Secret } from '../../secret/index.ts';
import { checkBinding } from '../appraise.ts';
import { toHex } from '../bytes.ts';
import { KeyIssuer, keyEvidenceMessage, parseKeyEvidence, type KeyEvidence } from '../key-evidence.ts';
import type { Check, ValidationContext, Validator, Verdict } from '../verdict.ts';
import { OwnerKeyError } from './errors.ts';
import { ownerPubKeyFromRaw, rawFromOwnerKey } from './pub-key.ts';

const LABEL = 'cluster owner-key evidence v1\0';

/** Proves that the operator's CLI holds the owner key: an Ed25519 signature over the binding of the session. */
export class OwnerKeyIssuer extends KeyIssuer {
  /** Throws `owner-key-invalid` unless the key is Ed25519. */
  constructor({ privKey }: { readonly privKey: Secret<KeyObject> }) {
    super('owner-key', { label: LABEL, privKey, pubKey: rawFromOwnerKey(privKey.reveal()) });
  }
}

/** Accepts a caller that holds one of the owner keys. Policy and collateral do not apply to owners. */
export class OwnerKeyValidator implements Validator {
  readonly variant = 'owner-key';
  readonly #pubKeys: ReadonlyMap<string, KeyObject>;

  /** `ownerKeys`: raw 32-byte Ed25519 public keys, at least one; throws `owner-key-invalid`. */
  constructor(options: { readonly ownerKeys: readonly Uint8Array[] }) {
    if (options.ownerKeys.length === 0)
      throw new OwnerKeyError('owner-key-invalid', 'configuring the owner keys: the list is empty');
    this.#pubKeys = new Map(options.ownerKeys.map((raw) => [toHex(raw), ownerPubKeyFromRaw(raw)]));
  }

  validate(evidence: Uint8Array, binding: Uint8Array, context: ValidationContext): Promise<Verdict> {
    return Promise.try(() => this.#verify(evidence, binding, context.policy.version));
  }

  #verify(evidence: Uint8Array, binding: Uint8Array, policyVersion: string): Verdict {
    checkBinding(binding);
    const { pubKey, signature } = parseOwnerKeyEvidence(evidence);
    const actual = toHex(pubKey);
    const expected = [...this.#pubKeys.keys()].join(' or ');
    const known = this.#pubKeys.get(actual);
    if (known === undefined)
      throw new OwnerKeyError('owner-key-unknown', 'verifying the owner key', { expected, actual });
    const checks: Check[] = [{ name: 'unknown', outcome: 'pass', expected, actual }];
    if (!verify(null, keyEvidenceMessage(LABEL, binding), known, signature))
      throw new OwnerKeyError('owner-key-signature', 'verifying the owner key', { checks });
    checks.push({ name: 'signature', outcome: 'pass' });
    return {
      variant: 'owner-key',
      accepted: true,
      checks,
      measurements: new Map(),
      machineIdentity: { kind: 'owner-key', id: fingerprintOf(pubKey), proof: 'pinned' },
      claims: {},
      warnings: [
        'An owner key identifies the caller; it says nothing about the machine that the call comes from.',
      ],
      policyVersion,
    };
  }
}

/** Parses the caller's evidence. Throws OwnerKeyError `owner-key-malformed`. */
export function parseOwnerKeyEvidence(bytes: Uint8Array): KeyEvidence {
  return parseKeyEvidence(
    bytes,
    (compared) => new OwnerKeyError('owner-key-malformed', 'reading owner-key evidence', compared),
  );
}

/** The fingerprint by which records refer to an owner: SHA-256 of the raw public key, lower-case hex. */
function fingerprintOf(pubKey: Uint8Array): string {
  return createHash('sha256').update(pubKey).digest('hex');
}
