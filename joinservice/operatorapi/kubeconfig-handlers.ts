import { fingerprintOfKey, verifyCertificateRequest } from '../../internal/pki/index.ts';
import { mutationFrom, refuseField } from '../curator/index.ts';
import { IssueKubeconfigRequestSchema } from '../curatorproto/gen/operatorapi_pb.js';
import { signed } from './errors.ts';
import type { HandlersOf, OperatorApiParts } from './operator-api-parts.ts';

const MAX_REQUEST_BYTES = 8192;

/**
 * Issues a new kubeconfig to the caller, with the rights of the caller's role. The call is recorded in the audit log
 * before the signer signs the certificate.
 */
export function kubeconfigHandlers({
  mutations,
  signer,
}: Pick<OperatorApiParts, 'mutations' | 'signer'>): HandlersOf<'issueKubeconfig'> {
  return {
    issueKubeconfig: async (request, call) => {
      const { certificateRequest, operatorPublicKey, signature } = request;
      if (certificateRequest.length === 0 || certificateRequest.length > MAX_REQUEST_BYTES)
        refuseField(
          'certificate_request',
          `expected a PKCS#10 request of at most ${MAX_REQUEST_BYTES} bytes`,
        );
      const fingerprint = fingerprintOfKey(operatorPublicKey);
      if (call.peer.kind !== 'operator' || fingerprint !== call.peer.fingerprint)
        refuseField('operator_public_key', 'expected the key of the caller');
      const mutation = mutationFrom(IssueKubeconfigRequestSchema, request, { ...call, subject: fingerprint });
      const detail = { key: fingerprintOfKey(await verifyCertificateRequest(certificateRequest)) };
      await mutations.run(mutation, () => Promise.resolve({ when: [], then: [], detail }));
      const asked = { certificateRequest, operatorPublicKey, signature };
      const answer = signer.signKubeconfig(asked, call.signal);
      const { certificatePem, kubernetesCaPem } = await signed(
        'the certificate in a kubeconfig',
        answer,
        call.signal,
      );
      return { certificatePem, kubernetesCaPem };
    },
  };
}
