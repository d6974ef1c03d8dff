import { isSignedByEd25519Key, kubeconfigStatement } from '../../internal/crypto/index.ts';
import { verifyCertificateRequest } from '../../internal/pki/index.ts';
import { SignerError } from './errors.ts';
import type { SignerReads } from './member-signer.ts';

/** kubeadm binds this group to cluster-admin (phase upload-config, kubeadm:cluster-admins). */
const ADMIN_GROUP = 'kubeadm:cluster-admins';

/** A certificate request of an owner for kubectl. Untrusted until it is verified. */
export interface KubeconfigRequest {
  /** PKCS#10, DER. */
  readonly certificateRequest: Uint8Array;
  /** The Ed25519 key of the owner, SubjectPublicKeyInfo, DER. */
  readonly operatorPubKeyDer: Uint8Array;
  /** The signature of the owner over `kubeconfigStatement`. */
  readonly signature: Uint8Array;
}

/** The parts of a kubeconfig other than the private key. */
export interface KubeconfigCredentials {
  readonly certPem: string;
  readonly kubernetesCaPem: string;
}

/**
 * Issues a client certificate of the Kubernetes API for a key that an owner has signed. The owners come from the configuration of
 * this program and from owner documents, never from the records of operators.
 * @throws SignerError `signer-not-on-record`, `signer-request-invalid`, `signer-key-missing`
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
    throw new SignerError(
      'signer-not-on-record',
      `signing for ${operator?.name ?? 'an unknown key'}: not an owner`,
    );
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
      `signing for ${name}: not signed with the key of the owner`,
    );
  const pubKeyDer = await verifyCertificateRequest(certificateRequest).catch((error: unknown) => {
    throw new SignerError('signer-request-invalid', `signing for ${name}: invalid certificate request`, {
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
