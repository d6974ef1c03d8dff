import { isSignedByEd25519Key, kubeconfigStatement } from '../../internal/crypto/index.ts';
import { verifyCertificateRequest } from '../../internal/pki/index.ts';
import { SignerError } from './errors.ts';
import type { SignerReads } from './member-signer.ts';

/** kubeadm binds this group to cluster-admin (phase upload-config, kubeadm:cluster-admins). */
const ADMIN_GROUP = 'kubeadm:cluster-admins';

/** What an owner asks to have signed for kubectl; the join service's word until it has been verified. */
export interface KubeconfigRequest {
  /** PKCS#10, DER. */
  readonly certificateRequest: Uint8Array;
  /** The owner's, SubjectPublicKeyInfo, DER: Ed25519. */
  readonly operatorPubKeyDer: Uint8Array;
  /** Of `kubeconfigStatement`, by the owner's key. */
  readonly signature: Uint8Array;
}

export interface KubeconfigCredentials {
  readonly certPem: string;
  readonly kubernetesCaPem: string;
}

/**
 * A client certificate of the Kubernetes API for a key that an owner has signed for. Who the owners are comes from this
 * program's configuration and from what they have signed, never from the records of operators.
 */
export async function signKubeconfig(
  ports: Pick<SignerReads, 'documents' | 'keys' | 'lifetimes' | 'cluster'>,
  request: KubeconfigRequest,
  signal: AbortSignal,
): Promise<KubeconfigCredentials> {
  const { certificateRequest, operatorPubKeyDer, signature } = request;
  const { clusterId } = ports.cluster;
  const operator = await ports.documents.operator(operatorPubKeyDer, signal);
  if (operator?.role !== 'owner')
    throw new SignerError('signer-not-on-record', `signing for ${operator?.name ?? 'a stranger'}: no owner`);
  const { name } = operator;
  if (
    !isSignedByEd25519Key(
      operatorPubKeyDer,
      kubeconfigStatement({ clusterId, certificateRequest }),
      signature,
    )
  )
    throw new SignerError(
      'signer-request-invalid',
      `signing for ${name}: the owner's key did not ask for it`,
    );
  const pubKeyDer = await verifyCertificateRequest(certificateRequest).catch((error: unknown) => {
    throw new SignerError('signer-request-invalid', `signing for ${name}: its certificate request`, {
      cause: error,
    });
  });
  const { caPem: kubernetesCaPem } = await ports.keys.certificateAuthority('kubernetes-ca');
  const { signer } = await ports.keys.kubernetesClients();
  const validDays = await ports.lifetimes.operatorDays(signal);
  const certPem = await signer.issue({
    ...{ commonName: name, organization: ADMIN_GROUP, pubKeyDer, validDays },
    usages: ['client'],
    names: [],
  });
  return { certPem, kubernetesCaPem };
}
