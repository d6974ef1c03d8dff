import type { X509Certificate } from 'node:crypto';
import { followedClusterCas } from '../../../internal/keyset/index.ts';
import { OwnerDocumentError } from '../../../internal/ownerdocument/index.ts';
import { PkiError, verifyControlPlaneCertificate, type MemberTrust } from '../../../internal/pki/index.ts';
import { bindClient, RpcChannel, tlsClientUpgrade } from '../../../internal/rpc/index.ts';
import {
  OperatorApi,
  type GetClusterCaResponse,
} from '../../../joinservice/curatorproto/gen/operatorapi_pb.js';
import type { CommandContext } from '../../app/command.ts';
import type { Caller } from './caller.ts';
import { saveWorkspaceCa, type WorkspaceCa } from './known-ca.ts';
import { keyOnlyCertificate } from './operator-certificate.ts';
import { verifySignedGeneration, type SignatureTrust, type SignedGeneration } from './signed-generation.ts';

const ANSWER_MS = 10_000;

/**
 * Adopts a new CA of the cluster when the curator at an endpoint shows a certificate that the known CA has not issued:
 * the shared keys may have been replaced since the last call. The response of the curator alone proves nothing. The
 * workspace trusts the new CA only if an owner, to whom a chain leads from the owners that it knows, has signed the
 * generation. It trusts no CA that was replaced.
 * @returns the CA, saved; undefined if the curator proves no newer one
 */
export async function followClusterCa(
  context: CommandContext,
  caller: Caller,
  endpoint: string,
): Promise<WorkspaceCa | undefined> {
  const { answer, certificate } = await askUnverified(context, caller, endpoint);
  const followed = provenCa(caller, { answer, certificate }, context.ports.clock.nowMs());
  if (followed === undefined) return undefined;
  await saveWorkspaceCa(context.ports.files, caller.caFile, followed);
  context.host.say(
    'cluster-ca-followed',
    `An owner has replaced the CA of the cluster (generation ${followed.generation} of the shared keys). This workspace trusts the new one only.`,
    { generation: followed.generation },
  );
  return followed;
}

/** Calls the curator over a connection that is not verified yet. The call reveals the public key of the caller and nothing else. */
async function askUnverified(
  { ports, signal }: CommandContext,
  caller: Caller,
  endpoint: string,
): Promise<{ readonly answer: GetClusterCaResponse; readonly certificate: X509Certificate | undefined }> {
  let certificate: X509Certificate | undefined;
  const { keyPem } = caller;
  const certPem = await keyOnlyCertificate(caller, ports.clock.nowMs());
  using channel = new RpcChannel({
    endpoint,
    upgrade: tlsClientUpgrade({
      clock: ports.clock,
      identity: { certPem, keyPem },
      accept: (shown: X509Certificate) => (certificate = shown),
    }),
  });
  const client = bindClient(OperatorApi, channel, { signal, timeoutMs: ANSWER_MS });
  return { answer: await client.getClusterCa({}), certificate };
}

/** The CA that an owner has signed and that has issued the certificate of the curator. Everything in `shown` is untrusted. */
export function provenCa(
  caller: SignatureTrust,
  shown: { readonly answer: GetClusterCaResponse; readonly certificate: X509Certificate | undefined },
  nowMs: number,
): WorkspaceCa | undefined {
  const { answer, certificate } = shown;
  if (certificate === undefined) return undefined;
  const { ca, clusterId } = caller;
  const signed = signedGeneration(caller, answer.ownerDocuments, nowMs);
  if (signed === undefined) return undefined;
  const issuer = followedClusterCas(answer.clusterCaPem, signed.keys, ca).find(({ pem: caPem }) =>
    isControlPlaneOf(certificate, { caPem, clusterId, nowMs: () => nowMs }),
  );
  if (issuer === undefined) return undefined;
  return { ...ca, trustedPem: issuer.pem, generation: issuer.generation, floors: signed.floors };
}

function signedGeneration(...of: Parameters<typeof verifySignedGeneration>): SignedGeneration | undefined {
  try {
    return verifySignedGeneration(...of);
  } catch (error) {
    if (error instanceof OwnerDocumentError) return undefined;
    throw error;
  }
}

function isControlPlaneOf(certificate: X509Certificate, trust: MemberTrust): boolean {
  try {
    verifyControlPlaneCertificate(certificate, trust);
    return true;
  } catch (error) {
    if (error instanceof PkiError) return false;
    throw error;
  }
}
