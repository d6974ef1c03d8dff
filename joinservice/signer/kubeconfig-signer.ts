import { isSignedByEd25519Key, kubeconfigStatement } from '../../internal/crypto/index.ts';
import { fingerprintOfKey, verifyCertificateRequest } from '../../internal/pki/index.ts';
import { KUBERNETES_GROUPS } from '../../internal/role/index.ts';
import type { SignKubeconfigRequest } from '../signerproto/gen/signer_pb.js';
import { SignerError } from './errors.ts';
import type { SignerReads } from './member-signer.ts';

/** A certificate request of a person for kubectl. Untrusted until it is verified. */
type KubeconfigRequest = Omit<SignKubeconfigRequest, '$typeName'>;

/**
 * Issues a client certificate of the Kubernetes API to an owner, operator or viewer, who has signed the request. People and roles come
 * from the configuration of this program and from owner documents, never from the records of operators.
 * @throws SignerError `signer-not-on-record`, `signer-request-invalid`, `signer-key-missing`
 */
export async function signKubeconfig(
  ports: Pick<SignerReads, 'documents' | 'keys' | 'configuration' | 'cluster'>,
  request: KubeconfigRequest,
  signal: AbortSignal,
) {
  const { certificateRequest, operatorPublicKey, signature } = request;
  const { clusterId } = ports.cluster;
  const operator = await ports.documents.operator(operatorPublicKey, signal);
  if (operator === undefined)
    throw new SignerError('signer-not-on-record', 'signing a kubeconfig: no owner has signed this key');
  const { name, role } = operator;
  if (
    !isSignedByEd25519Key(
      operatorPublicKey,
      kubeconfigStatement({ clusterId, certificateRequest }),
      signature,
    )
  )
    throw new SignerError(
      'signer-request-invalid',
      `signing for ${name}: not signed with the key of this person`,
    );
  const pubKeyDer = await verifyCertificateRequest(certificateRequest).catch((error: unknown) => {
    throw new SignerError('signer-request-invalid', `signing for ${name}: invalid certificate request`, {
      cause: error,
    });
  });
  const { trustedPem: kubernetesCaPem } = await ports.keys.kubernetesServers();
  const { signer } = await ports.keys.kubernetesClients();
  const validDays = await ports.configuration.operatorDays(signal);
  const certificatePem = await signer.issue({
    ...{ commonName: name, organization: KUBERNETES_GROUPS[role], pubKeyDer, validDays },
    // With this UID, API servers ask the webhook (joinservice/authzwebhook) whether the key is still on record.
    userId: fingerprintOfKey(operatorPublicKey),
    usages: ['client'],
    names: [],
  });
  return { certificatePem, kubernetesCaPem };
}
