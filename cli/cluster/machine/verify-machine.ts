import type { DescribeResponse } from '../../../initproto/gen/init_pb.js';
import type { AttestedPeer } from '../../../internal/atls/index.ts';
import {
  checkMachine,
  checkRegisters,
  machineIdentityText,
  withLockRegister,
  type MachineIdentity,
} from '../../../internal/attestation/index.ts';
import {
  CredentialActivations,
  compareClockObservations,
  decodeEnrolmentRequest,
  encodeChallenge,
  endorsementKeyIdOf,
  latestClockObservation,
  verifyEndorsement,
  type Endorsement,
  type EnrolmentRequest,
  type ClockObservation,
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
/** Keys and a certificate of a few KiB. */
const MAX_ENROLMENT_BYTES = 16 * 1024;

export interface VerifiedMachine {
  /** "sha256:HEX" of the machine's key, proved in this session. */
  readonly fingerprint: string;
  readonly record: MachineRecord;
}

/** The machine's own key, which people know it by, is at the other end of this very session. */
export function provedFingerprint(
  session: InitSession,
  peer: AttestedPeer,
  described: DescribeResponse,
): string {
  const { endpoint, fingerprint: expected } = session.machine;
  const { publicKey = new Uint8Array(), signature = new Uint8Array() } = described.key ?? {};
  const shown = verifyKeyProof(KEY_LABEL, peer.session, { publicKey, signature });
  if (expected === undefined || shown === expected) return shown;
  throw new ClusterError(
    'cluster-other-machine',
    `connecting to ${endpoint}: it shows ${shown}, expected is ${expected}`,
    { details: { endpoint, shown, expected } },
  );
}

/**
 * Judges what the handshake of a first contact left open: whose TPM it is (credential activation), whether the policy
 * allows that machine, and whether it is bound to nobody. A machine that is known has been judged by the handshake.
 */
export async function verifyMachine(
  context: CommandContext,
  what: {
    readonly session: InitSession;
    readonly peer: AttestedPeer;
    readonly fingerprint: string;
    readonly known: MachineRecord | undefined;
  },
): Promise<VerifiedMachine> {
  const { session, peer, fingerprint, known } = what;
  const { trust } = session;
  const { policy, settings, lock, isFirstContact } = trust;
  const endorsement = isFirstContact && peer.variant === 'tpm' ? await enrol(context, what) : undefined;
  const identity = endorsement === undefined ? peer.machineIdentity : endorsedIdentity(endorsement);
  if (isFirstContact) {
    checkMachine(identity, policy, []);
    checkRegisters(peer.measurements, withLockRegister(policy, settings.lockPcr, lock), []);
    trust.pinMachine(endorsement && keyOf(endorsement));
  }
  const record: MachineRecord = {
    variant: peer.variant,
    identity: machineIdentityText(identity),
    ...(endorsement === undefined ? pick(known) : keyOf(endorsement)),
  };
  tellMachine(context, { peer, trust, identity: record.identity });
  return { fingerprint, record: withSighting(context, { peer, fingerprint, record, known }) };
}

/** Ties the key that quoted in this session to the endorsement key of one TPM. */
async function enrol(
  context: CommandContext,
  { session, peer }: { readonly session: InitSession; readonly peer: AttestedPeer },
): Promise<Endorsement> {
  const { signal, ports } = context;
  const { enrolment } = await session.client.readEnrolment({}, { signal, timeoutMs: ANSWER_MS });
  if (enrolment.length > MAX_ENROLMENT_BYTES)
    throw new ClusterError('cluster-evidence-unknown', `reading the enrolment: ${enrolment.length} bytes`);
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
      `enrolling the machine: it names the attestation key ${endorsement.attestationKeyNameHex}, another one quoted`,
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
 * Under `firstContact: fingerprint` the operator vouches for the machine whose console shows the fingerprint; its key has
 * been proved in this session, so its TPM is pinned. Where manufacturers are named, one of them must vouch all the same.
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

function pick(known: MachineRecord | undefined): Pick<MachineRecord, 'attestationKey' | 'endorsementKey'> {
  const { attestationKey, endorsementKey } = known ?? {};
  return {
    ...(attestationKey === undefined ? {} : { attestationKey }),
    ...(endorsementKey === undefined ? {} : { endorsementKey }),
  };
}

function tellMachine(
  { host }: CommandContext,
  what: { readonly peer: AttestedPeer; readonly trust: MachineTrust; readonly identity: string },
): void {
  const { peer, trust, identity } = what;
  const { variant, verdict } = peer;
  const profile = trust.policy.profile ?? 'identity';
  const proved =
    profile === 'measured' ? 'its software as the policy wants it' : 'which machine it is, not its software';
  host.say('init-machine-verified', `The machine proved ${proved}: ${identity} (${variant}, ${profile})`, {
    variant,
    identity,
    profile,
    policyVersion: verdict.policyVersion,
  });
  const stillTrue = verdict.warnings.filter((text) => !text.startsWith('The attestation key is unknown'));
  for (const text of stillTrue) host.warn('init-machine-warning', text);
}

/** A copied TPM state has every key; what it cannot have is the same clock. */
function withSighting(
  { host, ports }: CommandContext,
  what: {
    readonly peer: AttestedPeer;
    readonly fingerprint: string;
    readonly record: MachineRecord;
    readonly known: MachineRecord | undefined;
  },
): MachineRecord {
  const { peer, fingerprint, record, known } = what;
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
    host.warn('init-machine-copied', `The machine may be a copy of another one: ${text}`, { kind });
  const { clock: kept, seenAtMs } = latestClockObservation(last, now);
  const { clockMs, resetCount, restartCount, safe } = kept;
  const sighting = { clockMs: clockMs.toString(), resetCount, restartCount, safe, seenAtMs };
  return { ...record, sighting };
}
