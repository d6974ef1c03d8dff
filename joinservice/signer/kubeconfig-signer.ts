import { isSignedByEd25519Key, kubeconfigStatement } from '../../internal/crypto/index.ts';
import { verifyCertificateRequest } from '../../internal/pki/index.ts';
import type { SignKubeconfigRequest } from '../signerproto/gen/signer_pb.js';
import { SignerError } from './errors.ts';
import type { SignerReads } from './member-signer.ts';

/** kubeadm binds this group to cluster-admin (phase upload-config, kubeadm:cluster-admins). */
const ADMIN_GROUP = 'kubeadm:cluster-admins';

/** A certificate request of an owner for kubectl. Untrusted until it is verified. */
type KubeconfigRequest = Omit<SignKubeconfigRequest, '$typeName'>;

/**
 * Issues a client certificate of the Kubernetes API for a key that an owner has signed. The owners come from the configuration of
 * this program and from owner documents, never from the records of operators.
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
  if (operator?.role !== 'owner')
    throw new SignerError(
      'signer-not-on-record',
      `signing for ${operator?.name ?? 'an unknown key'}: not an owner`,
    );
  const { name } = operator;
  if (
    !isSignedByEd25519Key(
      operatorPublicKey,
      kubeconfigStatement({ clusterId, certificateRequest }),
      signature,
    )
  )
    throw new SignerError(
      'signer-request-invalid',
      `signing for ${name}: not signed with the key of the owner`,
    );
  const pubKeyDer = await verifyCertificateRequest(certificateRequest).catch((error: unknown) => {
    throw new SignerError('signer-request-invalid', `signing for ${name}: invalid certificate request`, {
      cause: error,
    });
  });
  const { caPem: kubernetesCaPem } = await ports.keys.certificateAuthority('kubernetes-ca');
  const { signer } = await ports.keys.kubernetesClients();
  const validDays = await ports.configuration.operatorDays(signal);
  const certificatePem = await signer.issue({
    ...{ commonName: name, organization: ADMIN_GROUP, pubKeyDer, validDays },
    usages: ['client'],
    names: [],
  });
  return { certificatePem, kubernetesCaPem };
}
