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

/** The TPM of this machine, and the secret of its attestation key. */
export interface MachineOptions {
  readonly tpm: Tpm;
  readonly attestationKeySecret?: Secret<Uint8Array>;
}

/**
 * Strongest key first. The first key that has a certificate is used. If no key has a certificate, the first key is
 * used.
 */
const PREFERENCE: readonly [EndorsementKeyKind, ...EndorsementKeyKind[]] = [
  'ecc-p384',
  'ecc-p256',
  'rsa-2048',
];

/** Reads the keys of this machine's TPM for enrolment. Each call returns the same keys. Throws TpmError. */
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
 * Decrypts a challenge with the TPM and returns the answer for this session. Throws TpmError, `tpm-credential-rejected` for a
 * challenge that was created for another endorsement key or attestation key.
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
    const { handle, name } = endorsementKey;
    const secret = await withEndorsementAuth(connection, endorsementKey, taskSignal, (auth) =>
      activateCredential(
        connection,
        {
          attestationKey,
          endorsementKey: { handle, name, auth },
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
