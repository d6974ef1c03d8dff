import { Secret } from '../secret/index.ts';
import { createSealed, parseCreationData, type ProvedHalves } from './commands/creation.ts';
import { unseal, type SealedObject } from './commands/keys.ts';
import { readPcrs } from './commands/pcr.ts';
import { startPolicySession, type PolicySession } from './commands/sessions.ts';
import type { TpmConnection } from './connection.ts';
import { TpmError } from './errors.ts';
import type { Storage } from './storage.ts';
import { pcrDigest } from './structures/pcr-selection.ts';
import { sealedObjectTemplate } from './structures/templates.ts';

/** Size limit of a sealed secret (MAX_SYM_DATA of common TPMs). */
const MAX_SECRET_BYTES = 128;

/**
 * Creates an object that only this TPM unseals, under a policy that follows from the current values of the PCRs (SHA-256 bank). PCR
 * values are read without a session. The digest that the TPM recorded at the creation is authenticated: values that somebody on the bus has put in
 * place of the real ones do not become the policy of a secret.
 * @throws TpmError `tpm-pcrs-moving`; RangeError if a TPM cannot seal so many bytes
 */
export async function sealToPcrs(
  tpm: TpmConnection,
  options: {
    readonly storage: Storage;
    readonly secret: Secret<Uint8Array>;
    readonly pcrs: readonly number[];
    readonly outsideInfo: Uint8Array;
    /** The policy digest for this `pcrDigest()`. */
    readonly policyOf: (digest: Uint8Array) => Uint8Array;
  },
  signal: AbortSignal,
): Promise<ProvedHalves> {
  const { storage, pcrs, outsideInfo } = options;
  const secret = options.secret.reveal();
  if (secret.length === 0 || secret.length > MAX_SECRET_BYTES)
    throw new RangeError(`a sealed secret has 1 to ${MAX_SECRET_BYTES} bytes, not ${secret.length}`);
  const digest = pcrDigest(await readPcrs(tpm, { hash: 'sha256', pcrs }, signal), 'sha256');
  const template = sealedObjectTemplate(options.policyOf(digest));
  const { key: parent, session } = storage;
  const halves = await createSealed(tpm, { parent, session, template, secret, pcrs, outsideInfo }, signal);
  if (Buffer.compare(parseCreationData(halves.creationData).pcrDigest, digest) !== 0)
    throw new TpmError(
      'tpm-pcrs-moving',
      `sealing a secret to PCRs ${pcrs.join(',')}: other values were read`,
    );
  return halves;
}

/** Unseals a loaded object. @throws TpmError `tpm-policy-failed` if its policy is not satisfied */
export async function unsealWithPolicy(
  tpm: TpmConnection,
  options: {
    readonly storage: Pick<Storage, 'session'>;
    readonly object: SealedObject;
    /** Sends the commands that satisfy the policy of the object. */
    readonly satisfy: (policy: PolicySession) => Promise<void>;
  },
  signal: AbortSignal,
): Promise<Secret<Uint8Array>> {
  const { storage, object, satisfy } = options;
  await using policy = await startPolicySession(tpm, signal);
  await satisfy(policy);
  const { session } = storage;
  return new Secret(await unseal(tpm, { object, policy, session, maxBytes: MAX_SECRET_BYTES }, signal));
}
