import { createHash } from 'node:crypto';
import type { AttestedPeer } from '../../../internal/atls/index.ts';
import {
  AttestationError,
  endorsementKeyIdentity,
  type MachineIdentity,
  machineIdentityText,
  type Policy,
  type Verdict,
} from '../../../internal/attestation/index.ts';
import {
  type CredentialActivations,
  endorsementKeyIdOf,
  decodeEnrolmentRequest,
  encodeChallenge,
  verifyEndorsement,
  type Endorsement,
  type EndorsementTrust,
} from '../../../internal/attestation/enrolment/index.ts';
import { CertificateCache } from '../../../internal/attestation/x509/index.ts';
import type { Clock } from '../../../internal/clock/index.ts';
import { canonicalJson } from '../../../internal/config/index.ts';
import { fingerprintOfKey } from '../../../internal/pki/index.ts';
import type { EvidenceProfile, MachineRecord } from '../../../internal/records/index.ts';
import { attestationKeyNameOf } from '../../evidence/index.ts';
import { JoinError } from '../errors.ts';

/**
 * The current rules for hardware: which hardware is endorsed, which machines are allowed, and what accepted
 * evidence proves.
 */
export interface MachineTrust {
  readonly endorsements: EndorsementTrust;
  readonly profile: EvidenceProfile;
  readonly machines: 'any' | ReadonlySet<string>;
  /** Machines in the inventory. */
  readonly inventory: ReadonlySet<string>;
}

/** Dependencies of a `MachineIdentifier`. */
export interface MachineIdentifierOptions {
  readonly trust: () => MachineTrust;
  readonly clock: Clock;
  /** Open challenges; only the `MachineIdentifier` adds challenges. */
  readonly activations: CredentialActivations;
}

/** Sends a challenge to the machine and resolves with its answer. */
export type ChallengeExchange = (challenge: Uint8Array) => Promise<Uint8Array>;

/**
 * Identifies the machine at the other end of a session whose evidence was accepted. Evidence of a
 * confidential processor names the machine. An attestation key of a TPM identifies the machine only after the
 * TPM has answered a challenge for that key (credential activation, TPM 2.0 Part 1, TPM2_ActivateCredential).
 */
export class MachineIdentifier {
  readonly #options: MachineIdentifierOptions;
  readonly #cache = new CertificateCache();

  constructor(options: MachineIdentifierOptions) {
    this.#options = options;
  }

  /**
   * The identity of the machine and how it was proved.
   * @param enrolment sent by the machine; empty if its evidence needs none
   * @throws JoinError, AttestationError
   */
  async identify(
    peer: AttestedPeer,
    enrolment: Uint8Array,
    exchange: ChallengeExchange,
  ): Promise<MachineRecord> {
    const { profile } = this.#options.trust();
    const quoted = attestationKeyNameOf(peer);
    const base = {
      variant: peer.variant,
      profile,
      evidenceDigest: evidenceDigestOf(peer),
      policyVersion: peer.verdict.policyVersion,
    };
    if (quoted === undefined || peer.machineIdentity.proof === 'endorsed') {
      const identity = checkAllowed(machineIdentityText(peer.machineIdentity), this.#options.trust());
      const isListed = this.#options.trust().inventory.has(identity);
      const shown = peer.machineIdentity.proof;
      const proof = shown === 'unproved' && isListed ? 'pinned' : shown;
      return { ...base, identity, proof, ...(quoted === undefined ? {} : { akName: quoted }) };
    }
    const proved = await this.#activate(peer, { enrolment, quoted }, exchange);
    checkAllowed(proved.identity, this.#options.trust());
    return { ...base, ...proved, akName: quoted };
  }

  async #activate(
    peer: AttestedPeer,
    given: { readonly enrolment: Uint8Array; readonly quoted: string },
    exchange: ChallengeExchange,
  ): Promise<Pick<MachineRecord, 'identity' | 'proof'>> {
    const { clock } = this.#options;
    const judged = this.#judge(given.enrolment);
    // Otherwise a machine could enrol the attestation key of its own TPM and show evidence of another TPM.
    if (judged.endorsement.attestationKeyNameHex !== given.quoted)
      throw new JoinError(
        'join-evidence-mismatch',
        `enrolling attestation key ${judged.endorsement.attestationKeyNameHex}: the evidence was signed with key ${given.quoted}`,
      );
    const challenge = this.#options.activations.challenge(judged.endorsement, clock.nowMs());
    const answer = await exchange(encodeChallenge(challenge)).catch((error: unknown) => {
      this.#options.activations.forget(challenge.id);
      throw error;
    });
    const { endorsementKeyId } = this.#options.activations.verifyAnswer(
      { id: challenge.id, answer, session: peer.session },
      clock.nowMs(),
    );
    return { identity: endorsementKeyIdentity(endorsementKeyId), proof: judged.proof };
  }

  /**
   * Finds out who vouches for the endorsement key: a manufacturer, the configuration, or nobody yet. In the last case
   * the key is checked as if the configuration listed it, so that an operator can decide about a proved identity.
   */
  #judge(enrolment: Uint8Array): {
    readonly endorsement: Endorsement;
    readonly proof: MachineRecord['proof'];
  } {
    const request = decodeEnrolmentRequest(enrolment);
    const { endorsements } = this.#options.trust();
    const options = { cache: this.#cache, nowMs: this.#options.clock.nowMs() };
    const pinnedKeys = new Set([endorsementKeyIdOf(request.endorsementKey)]);
    const alone = { roots: new Set<string>(), authorities: [], pinnedKeys };
    const own = verifyEndorsement(request, { ...options, trust: alone });
    if (endorsements.pinnedKeys.has(own.endorsementKeyId)) return { endorsement: own, proof: 'pinned' };
    if (endorsements.roots.size === 0 || request.endorsementCertificate === undefined)
      return { endorsement: own, proof: 'unproved' };
    try {
      const endorsement = verifyEndorsement(request, { ...options, trust: endorsements });
      return { endorsement, proof: 'endorsed' };
    } catch (error) {
      // A certificate of an untrusted manufacturer is ignored: operators decide, if the policy allows that.
      if (error instanceof AttestationError) return { endorsement: own, proof: 'unproved' };
      throw error;
    }
  }
}

/**
 * Checks the list of machines of the attestation policy.
 * @returns the identity
 * @throws JoinError `join-unknown-machine`
 */
export function checkAllowed(identity: string, { machines }: Pick<MachineTrust, 'machines'>): string {
  if (machines === 'any' || machines.has(identity)) return identity;
  throw new JoinError(
    'join-unknown-machine',
    `identifying ${identity}: the attestation policy does not list it`,
  );
}

/**
 * Refuses evidence that was verified with an older policy. Evidence is verified when its session begins, and the
 * policy may change later.
 * @throws JoinError `join-evidence-outdated`
 */
export function checkPolicyCurrent(
  verdict: Pick<Verdict, 'policyVersion'>,
  policy: Pick<Policy, 'version'>,
  machine: MachineIdentity,
): void {
  if (verdict.policyVersion === policy.version) return;
  throw new JoinError(
    'join-evidence-outdated',
    `issuing ticket to ${machineIdentityText(machine)}: its evidence was verified with policy ${verdict.policyVersion}, current is ${policy.version}`,
  );
}

/** Refuses a machine whose only evidence is a key, if it joins with another key. @throws JoinError `join-evidence-mismatch` */
export function checkOwnKey({ identity, variant }: MachineRecord, pubKeyDer: Uint8Array): void {
  const own = `machine-key:${fingerprintOfKey(pubKeyDer).replace('sha256:', '')}`;
  if (variant === 'machine-key' && identity !== own)
    throw new JoinError('join-evidence-mismatch', `joining with ${own}: the evidence identifies ${identity}`);
}

/** SHA-256, hex, over everything that the verdict is based on. The audit log names evidence by it. */
export function evidenceDigestOf(
  peer: Pick<AttestedPeer, 'variant' | 'measurements' | 'machineIdentity' | 'claims' | 'verdict'>,
): string {
  const { variant, measurements, machineIdentity, claims, verdict } = peer;
  const registers = Object.fromEntries(
    [...measurements].map(([name, value]) => [name, Buffer.from(value).toString('hex')]),
  );
  const text = canonicalJson({
    variant,
    registers,
    machineIdentity,
    claims,
    policyVersion: verdict.policyVersion,
  });
  return createHash('sha256').update(text).digest('hex');
}
