import { createHash, sign, verify, type KeyObject } from 'node:crypto';
import type { Secret } from '../../secret/index.ts';
import { checkBinding, checkMachine } from '../appraise.ts';
import { toHex } from '../bytes.ts';
import { ownerPubKeyFromRaw, OwnerKeyError, rawFromOwnerKey } from '../ownerkey/index.ts';
import type { Check, Issuer, MachineIdentity, ValidationContext, Validator, Verdict } from '../verdict.ts';
import { MachineKeyError } from './errors.ts';

const VERSION = 1;
const KEY_BYTES = 32;
const SIGNATURE_BYTES = 64;
const DOCUMENT_BYTES = 1 + KEY_BYTES + SIGNATURE_BYTES;
const LABEL = Buffer.from('cluster machine-key evidence v1\0', 'ascii');

/** Shows that the machine holds its own key (RFC 8032 Ed25519). */
export class MachineKeyIssuer implements Issuer {
  readonly variant = 'machine-key';
  readonly #privKey: Secret<KeyObject>;
  readonly #pubKey: Uint8Array;

  constructor(options: { readonly privKey: Secret<KeyObject> }) {
    this.#privKey = options.privKey;
    this.#pubKey = rawFromOwnerKey(options.privKey.reveal());
  }

  issue(binding: Uint8Array, signal: AbortSignal): Promise<Uint8Array> {
    return Promise.try(() => {
      signal.throwIfAborted();
      checkBinding(binding);
      const signature = sign(null, Buffer.concat([LABEL, binding]), this.#privKey.reveal());
      return Buffer.concat([Uint8Array.of(VERSION), this.#pubKey, signature]);
    });
  }
}

/**
 * Accepts a machine whose key has one of these fingerprints. `any` is for reading a fingerprint off a machine, so that a
 * person can compare it: the identity is then `unproved`, and only a policy of `machines: any` lets it pass.
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
    const { key, signature } = parseDocument(evidence);
    const id = toHex(
      createHash('sha256')
        .update(key.export({ type: 'spki', format: 'der' }))
        .digest(),
    );
    const known = this.#fingerprints;
    const expected = known === 'any' ? 'any' : [...known].join(' or ');
    if (known !== 'any' && !known.has(id)) {
      throw new MachineKeyError('machine-key-unknown', 'validating the machine key', {
        expected,
        actual: id,
      });
    }
    const checks: Check[] = [
      { name: 'unknown', outcome: known === 'any' ? 'skipped' : 'pass', expected, actual: id },
    ];
    if (!verify(null, Buffer.concat([LABEL, binding]), key, signature)) {
      throw new MachineKeyError('machine-key-signature', 'validating the machine key', { checks });
    }
    checks.push({ name: 'signature', outcome: 'pass' });
    const machineIdentity: MachineIdentity = {
      kind: 'machine-key',
      id,
      proof: known === 'any' ? 'unproved' : 'pinned',
    };
    checkMachine(machineIdentity, policy, checks);
    return {
      variant: this.variant,
      accepted: true,
      checks,
      measurements: new Map(),
      machineIdentity,
      claims: {},
      warnings: ['a machine key says which machine answers, nothing about its hardware or software'],
      policyVersion: policy.version,
    };
  }
}

function parseDocument(bytes: Uint8Array): { readonly key: KeyObject; readonly signature: Uint8Array } {
  if (bytes.length !== DOCUMENT_BYTES || bytes[0] !== VERSION) {
    throw new MachineKeyError('machine-key-malformed', 'reading machine-key evidence', {
      expected: `${DOCUMENT_BYTES} bytes of version ${VERSION}`,
      actual: `${bytes.length} bytes of version ${bytes[0] ?? 'none'}`,
    });
  }
  try {
    const key = ownerPubKeyFromRaw(bytes.subarray(1, 1 + KEY_BYTES));
    return { key, signature: bytes.subarray(1 + KEY_BYTES) };
  } catch (error) {
    if (!(error instanceof OwnerKeyError)) throw error;
    throw new MachineKeyError('machine-key-malformed', 'reading machine-key evidence', { cause: error });
  }
}
