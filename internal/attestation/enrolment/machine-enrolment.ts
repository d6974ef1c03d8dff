import type { Secret } from '../../secret/index.ts';
import {
  activateCredential,
  createAttestationKey,
  openEndorsementKey,
  readEndorsementCertificate,
  withEndorsementAuth,
  type EndorsementKeyKind,
  type Tpm,
  type TpmConnection,
} from '../../tpm/index.ts';
import { activationAnswer, type Challenge } from './credential-activations.ts';
import type { EnrolmentRequest } from './endorsement.ts';

/** The machine's side of enrolment. */
export interface MachineOptions {
  readonly tpm: Tpm;
  readonly attestationKeySecret?: Secret<Uint8Array>;
}

/** Strongest first; the first with a certificate counts, and the first of all where there is none. */
const PREFERENCE: readonly [EndorsementKeyKind, ...EndorsementKeyKind[]] = [
  'ecc-p384',
  'ecc-p256',
  'rsa-2048',
];

/** What this machine shows of its TPM. The same each time. */
export function readEnrolmentRequest(
  { tpm, attestationKeySecret }: MachineOptions,
  signal: AbortSignal,
): Promise<EnrolmentRequest> {
  return tpm.use(signal, async (connection, taskSignal) => {
    const { kind, certificate } = await chooseEndorsementKey(connection, taskSignal);
    await using endorsementKey = await openEndorsementKey(connection, kind, taskSignal);
    await using attestationKey = await createAttestationKey(connection, attestationKeySecret, taskSignal);
    return {
      endorsementKey: endorsementKey.publicArea.bytes,
      ...(certificate === undefined ? {} : { endorsementCertificate: certificate }),
      attestationKey: attestationKey.publicArea.bytes,
    };
  });
}

/**
 * Opens a challenge with the TPM and answers it for this session. The TPM itself refuses (`tpm-credential-rejected`) one
 * that was made for another endorsement key or another attestation key.
 */
export function answerChallenge(
  { tpm, attestationKeySecret }: MachineOptions,
  challenge: Challenge,
  session: Uint8Array,
  signal: AbortSignal,
): Promise<Uint8Array> {
  return tpm.use(signal, async (connection, taskSignal) => {
    const { kind } = await chooseEndorsementKey(connection, taskSignal);
    await using endorsementKey = await openEndorsementKey(connection, kind, taskSignal);
    await using attestationKey = await createAttestationKey(connection, attestationKeySecret, taskSignal);
    const { handle } = endorsementKey;
    const secret = await withEndorsementAuth(connection, endorsementKey, taskSignal, (auth) =>
      activateCredential(
        connection,
        {
          attestationKey,
          endorsementKey: { handle, auth },
          credentialBlob: challenge.credentialBlob,
          encryptedSeed: challenge.encryptedSeed,
        },
        taskSignal,
      ),
    );
    return activationAnswer(secret, challenge.id, session);
  });
}

async function chooseEndorsementKey(
  connection: TpmConnection,
  signal: AbortSignal,
): Promise<{ readonly kind: EndorsementKeyKind; readonly certificate: Uint8Array | undefined }> {
  for (const kind of PREFERENCE) {
    const certificate = await readEndorsementCertificate(connection, kind, signal);
    if (certificate !== undefined) return { kind, certificate };
  }
  return { kind: PREFERENCE[0], certificate: undefined };
}
