import { isAbort } from '../../internal/errors/index.ts';
import { fingerprintOfKey, verifyCertificateRequest } from '../../internal/pki/index.ts';
import type { Handlers } from '../../internal/rpc/index.ts';
import { mutationFrom, refuseField, type Caller, type Mutations } from '../curator/index.ts';
import { IssueKubeconfigRequestSchema, type OperatorApi } from '../curatorproto/gen/operatorapi_pb.js';
import type { KubeconfigCredentials, KubeconfigRequest } from '../signer/index.ts';
import { OperatorApiError } from './errors.ts';

const MAX_REQUEST_BYTES = 8192;

/** Issues client certificates of the Kubernetes API to owners. */
export interface KubeconfigSigner {
  signKubeconfig(request: KubeconfigRequest, signal: AbortSignal): Promise<KubeconfigCredentials>;
}

/** Issues a new kubeconfig to the calling owner. It is recorded in the audit log before the signer signs it. */
export function kubeconfigHandlers(parts: {
  readonly mutations: Mutations;
  readonly signer: KubeconfigSigner;
}): Pick<Handlers<typeof OperatorApi, Caller>, 'issueKubeconfig'> {
  return {
    issueKubeconfig: async (request, { peer, signal }) => {
      const { certificateRequest, operatorPublicKey, signature } = request;
      if (certificateRequest.length === 0 || certificateRequest.length > MAX_REQUEST_BYTES)
        refuseField(
          'certificate_request',
          `expected a PKCS#10 request of at most ${MAX_REQUEST_BYTES} bytes`,
        );
      const fingerprint = fingerprintOfKey(operatorPublicKey);
      if (peer.kind !== 'operator' || fingerprint !== peer.fingerprint)
        refuseField('operator_public_key', 'expected the key of the caller');
      const mutation = mutationFrom(IssueKubeconfigRequestSchema, request, {
        peer,
        signal,
        subject: fingerprint,
      });
      const detail = { key: fingerprintOfKey(await verifyCertificateRequest(certificateRequest)) };
      await parts.mutations.run(mutation, () => Promise.resolve({ when: [], then: [], detail }));
      const asked = { certificateRequest, operatorPubKeyDer: operatorPublicKey, signature };
      try {
        const { certPem, kubernetesCaPem } = await parts.signer.signKubeconfig(asked, signal);
        return { certificatePem: certPem, kubernetesCaPem };
      } catch (error) {
        if (isAbort(error, signal)) throw error;
        throw new OperatorApiError('operatorapi-signing-failed', 'issuing the certificate of a kubeconfig', {
          cause: error,
        });
      }
    },
  };
}
