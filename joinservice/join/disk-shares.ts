import type { MessageInitShape } from '@bufbuild/protobuf';
import type { AttestedPeer } from '../../internal/atls/index.ts';
import { MAX_EVIDENCE_BYTES } from '../../internal/attestation/index.ts';
import { MAX_ENROLMENT_BYTES } from '../../internal/attestation/enrolment/index.ts';
import type { DiskShareSchema, IssueDiskShareRequest } from '../joinproto/gen/join_pb.js';
import type { SignerClient } from '../signerlink/index.ts';
import { JoinError } from './errors.ts';

const UUID_CHARS = 36;
/** As many as for a ticket: a machine shows evidence of its TPM, and of its key. */
const MAX_EVIDENCE = 2;

/**
 * Passes the request of a machine for the share of its state disk to the signer, which verifies it and encrypts the answer for the TPM of the
 * machine. This process can neither read nor replace the share; it checks sizes, and adds the session.
 * @throws JoinError `join-keys-invalid`; RemoteError `signer-…`
 */
export async function issueDiskShare(
  signer: Pick<SignerClient, 'giveDiskShare'>,
  request: IssueDiskShareRequest,
  { peer: { session }, signal }: { readonly peer: AttestedPeer; readonly signal: AbortSignal },
): Promise<MessageInitShape<typeof DiskShareSchema>> {
  const { uuid, enrolment, timeMs } = request;
  const isSized =
    uuid.length === UUID_CHARS &&
    enrolment.length <= MAX_ENROLMENT_BYTES &&
    request.evidence.length > 0 &&
    request.evidence.length <= MAX_EVIDENCE &&
    request.evidence.every(({ document }) => document.length <= MAX_EVIDENCE_BYTES);
  if (!isSized)
    throw new JoinError('join-keys-invalid', 'reading a request for a disk share: missing or too large');
  const evidence = request.evidence.map(({ variant, document }) => ({ variant, document }));
  const given = await signer.giveDiskShare({ uuid, enrolment, timeMs, session, evidence }, signal);
  const { challenge, nonce, ciphertext, signature } = given;
  return { challenge, nonce, ciphertext, signature };
}
