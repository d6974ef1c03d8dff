import type { DescribeResponse } from '../../../initproto/gen/init_pb.js';
import type { AttestedPeer } from '../../../internal/atls/index.ts';
import {
  checkMachine,
  checkRegisters,
  type MachineIdentity,
  machineIdentityText,
  withLockRegister,
} from '../../../internal/attestation/index.ts';
import {
  type ClockObservation,
  compareClockObservations,
  CredentialActivations,
  decodeEnrolmentRequest,
  encodeChallenge,
  type Endorsement,
  endorsementKeyIdOf,
  type EnrolmentRequest,
  latestClockObservation,
  MAX_ENROLMENT_BYTES,
  verifyEndorsement,
} from '../../../internal/attestation/enrolment/index.ts';
import { verifyKeyProof } from '../../../internal/attestation/machinekey/index.ts';
import { clockOfVerdict } from '../../../internal/attestation/tpm/index.ts';
import { CertificateCache } from '../../../internal/attestation/x509/index.ts';
import type { CommandContext } from '../../app/command.ts';
import type { MachineRecord } from '../../workspace/index.ts';
import { ClusterError } from '../errors.ts';
import type { MachineTrust } from './machine-trust.ts';
import type { InitSession } from './init-session.ts';

const KEY_LABEL = 'cluster/init/key/v1';
const ANSWER_MS = 30_000;

/** A machine whose evidence was accepted. */
export interface VerifiedMachine {
  /** "sha256:HEX" of the machine's key, which it proved in this session. */
  readonly fingerprint: string;
  readonly record: MachineRecord;
  /** The TPM that credential activation has proved; undefined for a known machine, and without a TPM of its own. */
  readonly endorsement: Endorsement | undefined;
}

/**
 * Verifies that the machine holds its key in this session, and that the key has the expected fingerprint.
 * @returns the fingerprint, "sha256:HEX"
 * @throws ClusterError `cluster-other-machine`; errors of `verifyKeyProof`
 */
export function provedFingerprint(
  session: InitSession,
  peer: AttestedPeer,
  described: DescribeResponse,
): string {
  const { endpoint, fingerprint: expected } = session.machine;
  const { publicKey = new Uint8Array(), signature = new Uint8Array() } = described.key ?? {};
  const shown = verifyKeyProof(KEY_LABEL, peer.session, { publicKey, signature });
  if (expected === undefined || shown === expected) return shown;
  throw otherFingerprint(endpoint, { shown, expected });
}

/** The error for a machine whose key is not the one that the operator named. */
export function otherFingerprint(
  endpoint: string,
  { shown, expected }: { readonly shown: string; readonly expected: string | undefined },
): ClusterError {
  const text = `the key of machine ${endpoint} has fingerprint ${shown}, expected ${expected ?? 'another one'}`;
  return new ClusterError('cluster-other-machine', text, { details: { endpoint, shown, expected } });
}

/** A connection to the machine, and what is known about it so far. */
interface Contact {
  readonly session: InitSession;
  readonly peer: AttestedPeer;
  readonly fingerprint: string;
  /** The machine with which the init was started. */
  readonly known: MachineRecord | undefined;
}

/**
 * Completes the verification that the handshake of a first contact leaves open: to which TPM the key belongs
 * (credential activation), whether the policy allows that machine, and whether it already belongs to a
 * cluster. For a known machine the handshake has verified all of this.
 * @throws ClusterError `cluster-evidence-unknown`; errors of the attestation checks
 */
export async function verifyMachine(context: CommandContext, contact: Contact): Promise<VerifiedMachine> {
  const { session, peer, fingerprint, known } = contact;
  const { trust } = session;
  const { policy, settings, lock, isFirstContact } = trust;
  const endorsement = isFirstContact && peer.variant === 'tpm' ? await enrol(context, contact) : undefined;
  const identity = endorsement === undefined ? peer.machineIdentity : endorsedIdentity(endorsement);
  if (isFirstContact) {
    checkMachine(identity, policy, []);
    checkRegisters(peer.measurements, withLockRegister(policy, settings.lockPcr, lock), []);
    trust.pinMachine(endorsement && keyOf(endorsement));
  }
  const record: MachineRecord = {
    variant: peer.variant,
    identity: machineIdentityText(identity),
    ...(endorsement === undefined ? keyOfRecord(known) : keyOf(endorsement)),
  };
  reportMachine(context, contact, record.identity);
  return { fingerprint, endorsement, record: withClockObservation(context, contact, record) };
}

/** Verifies by credential activation that the attestation key of this session is in the TPM of the returned endorsement. */
async function enrol(context: CommandContext, { session, peer }: Contact): Promise<Endorsement> {
  const { signal, ports } = context;
  const { enrolment } = await session.client.readEnrolment({}, { signal, timeoutMs: ANSWER_MS });
  if (enrolment.length > MAX_ENROLMENT_BYTES)
    throw new ClusterError(
      'cluster-evidence-unknown',
      `enrolment request too large: ${enrolment.length} bytes, at most ${MAX_ENROLMENT_BYTES} allowed`,
    );
  const request = decodeEnrolmentRequest(enrolment);
  const nowMs = ports.clock.nowMs();
  const endorsement = verifyEndorsement(request, {
    trust: endorsementTrust(session.trust, request),
    cache: new CertificateCache(),
    nowMs,
  });
  if (endorsement.attestationKeyNameHex !== peer.claims['attestationKey']) {
    throw new ClusterError(
      'cluster-evidence-unknown',
      `enrolment names attestation key ${endorsement.attestationKeyNameHex}, but the quote is by a different key`,
    );
  }
  const activations = new CredentialActivations();
  const challenge = activations.challenge(endorsement, nowMs);
  const { answer } = await session.client.answerChallenge(
    { challenge: encodeChallenge(challenge) },
    { signal, timeoutMs: ANSWER_MS },
  );
  const answered = { id: challenge.id, answer, session: peer.session };
  return activations.verifyAnswer(answered, ports.clock.nowMs());
}

/**
 * With `firstContact: fingerprint` the operator has compared the fingerprint with the machine's console, so
 * its TPM is trusted. If manufacturers are configured, one of them must endorse the TPM as well.
 */
function endorsementTrust(
  { settings }: MachineTrust,
  request: EnrolmentRequest,
): MachineTrust['settings']['trust'] {
  const { trust, firstContact } = settings;
  const isNamed = trust.roots.size + trust.pinnedKeys.size > 0;
  if (firstContact !== 'fingerprint' || isNamed) return trust;
  return { ...trust, pinnedKeys: new Set([endorsementKeyIdOf(request.endorsementKey)]) };
}

function endorsedIdentity({ endorsementKeyId }: Endorsement): MachineIdentity {
  return { kind: 'tpm-ek', id: endorsementKeyId, proof: 'endorsed' };
}

function keyOf({ attestationKeyNameHex, endorsementKeyId }: Endorsement) {
  return { attestationKey: attestationKeyNameHex, endorsementKey: endorsementKeyId };
}

function keyOfRecord({ attestationKey, endorsementKey }: Partial<MachineRecord> = {}) {
  return { attestationKey, endorsementKey };
}

function reportMachine({ host }: CommandContext, { session, peer }: Contact, identity: string): void {
  const { variant, verdict } = peer;
  const profile = session.trust.policy.profile ?? 'identity';
  const result =
    profile === 'measured' ? 'identity and software verified' : 'identity verified; software not attested';
  host.say('init-machine-verified', `Machine ${identity}: ${result} (${variant}, ${profile})`, {
    variant,
    identity,
    profile,
    policyVersion: verdict.policyVersion,
  });
  const warnings = verdict.warnings.filter((text) => !text.startsWith('The attestation key is unknown'));
  for (const text of warnings) host.warn('init-machine-warning', text);
}

/** Adds the observed TPM clock to the record. A copied TPM has the same keys, but not the same clock. */
function withClockObservation(
  { host, ports }: CommandContext,
  { peer, fingerprint, known }: Contact,
  record: MachineRecord,
): MachineRecord {
  const clock = clockOfVerdict(peer.verdict);
  if (clock === undefined || record.attestationKey === undefined) return record;
  const common = { attestationKeyNameHex: record.attestationKey, nodeKeyId: fingerprint };
  const now: ClockObservation = { ...common, clock, seenAtMs: ports.clock.nowMs() };
  const { sighting: saved } = known ?? {};
  const last: ClockObservation | undefined = saved && {
    ...common,
    clock: { ...saved, clockMs: BigInt(saved.clockMs) },
    seenAtMs: saved.seenAtMs,
  };
  for (const { kind, text } of last === undefined ? [] : compareClockObservations(last, now))
    host.warn('init-machine-copied', `The TPM of the machine may have been copied: ${text}`, { kind });
  const { clock: kept, seenAtMs } = latestClockObservation(last, now);
  const { clockMs, resetCount, restartCount, safe } = kept;
  const sighting = { clockMs: clockMs.toString(), resetCount, restartCount, safe, seenAtMs };
  return { ...record, sighting };
}
