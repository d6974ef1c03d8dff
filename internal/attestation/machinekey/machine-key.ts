import { createHash, type KeyObject } from 'node:crypto';
import {
  ed25519SpkiFromRaw,
  isSignedByEd25519Key,
  isSmallOrderEd25519Key,
  rawFromEd25519Key,
} from '../../crypto/index.ts';
import type { Secret } from '../../secret/index.ts';
import { checkBinding, checkMachine } from '../appraise.ts';
import { toHex } from '../bytes.ts';
import { KeyIssuer, keyEvidenceMessage, parseKeyEvidence, type KeyEvidence } from '../key-evidence.ts';
import type { Check, MachineIdentity, ValidationContext, Validator, Verdict } from '../verdict.ts';
import { MachineKeyError } from './errors.ts';

const LABEL = 'cluster machine-key evidence v1\0';

/** Proves that the machine holds its own key (Ed25519, RFC 8032). */
export class MachineKeyIssuer extends KeyIssuer {
  constructor({ privKey }: { readonly privKey: Secret<KeyObject> }) {
    super('machine-key', { label: LABEL, privKey, pubKey: rawFromEd25519Key(privKey.reveal()) });
  }
}

/**
 * Accepts a machine whose key has one of the given fingerprints. `any` is for reading the fingerprint of a machine so that a
 * person can compare it: the identity is then `unproved`, and only a policy of `machines: any` accepts it.
 */
export class MachineKeyValidator implements Validator {
  readonly variant = 'machine-key';
  readonly #fingerprints: ReadonlySet<string> | 'any';

  /** `fingerprints`: SHA-256 of the SubjectPublicKeyInfo, lower-case hex, without a prefix. */
  constructor(options: { readonly fingerprints: ReadonlySet<string> | 'any' }) {
    this.#fingerprints = options.fingerprints;
  }

  validate(evidence: Uint8Array, binding: Uint8Array, context: ValidationContext): Promise<Verdict> {
    return Promise.try(() => this.#verify(evidence, binding, context));
  }

  #verify(evidence: Uint8Array, binding: Uint8Array, { policy }: ValidationContext): Verdict {
    checkBinding(binding);
    const { pubKey, signature } = parseMachineKeyEvidence(evidence);
    const spkiDer = ed25519SpkiFromRaw(pubKey);
    const id = createHash('sha256').update(spkiDer).digest('hex');
    const known = this.#fingerprints;
    const expected = known === 'any' ? 'any' : [...known].join(' or ');
    if (known !== 'any' && !known.has(id))
      throw new MachineKeyError('machine-key-unknown', 'verifying the machine key', { expected, actual: id });
    const checks: Check[] = [
      { name: 'unknown', outcome: known === 'any' ? 'skipped' : 'pass', expected, actual: id },
    ];
    if (!isSignedByEd25519Key(spkiDer, keyEvidenceMessage(LABEL, binding), signature))
      throw new MachineKeyError('machine-key-signature', 'verifying the machine key', { checks });
    checks.push({ name: 'signature', outcome: 'pass' });
    const proof = known === 'any' ? 'unproved' : 'pinned';
    const machineIdentity: MachineIdentity = { kind: 'machine-key', id, proof };
    checkMachine(machineIdentity, policy, checks);
    return {
      variant: this.variant,
      accepted: true,
      checks,
      measurements: new Map(),
      machineIdentity,
      claims: {},
      warnings: ['A machine key identifies the machine; it says nothing about its hardware or software.'],
      policyVersion: policy.version,
    };
  }
}

function parseMachineKeyEvidence(bytes: Uint8Array): KeyEvidence {
  const malformed = (compared: { readonly expected: string; readonly actual: string }): Error =>
    new MachineKeyError('machine-key-malformed', 'reading machine-key evidence', compared);
  const evidence = parseKeyEvidence(bytes, malformed);
  if (isSmallOrderEd25519Key(evidence.pubKey))
    throw malformed({ expected: 'a key of full order', actual: toHex(evidence.pubKey) });
  return evidence;
}
