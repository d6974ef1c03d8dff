import { createPrivateKey, createPublicKey, X509Certificate } from 'node:crypto';
import { kubeconfigStatement, signEd25519 } from '../../../internal/crypto/index.ts';
import type { FilePort } from '../../../internal/file/index.ts';
import {
  accessFromKubeconfig,
  KubeClient,
  KubeError,
  renderKubeconfig,
  type KubeAccess,
} from '../../../internal/kube/index.ts';
import { createCertificateRequest, generateKeyPem, spkiDerOf } from '../../../internal/pki/index.ts';
import { KUBERNETES_GROUPS } from '../../../internal/role/index.ts';
import type { Secret } from '../../../internal/secret/index.ts';
import type { CommandContext } from '../../app/command.ts';
import { layoutOf, type KubernetesEndpoint } from '../../workspace/index.ts';
import { callCurator, newMutation } from '../curator/call-curator.ts';
import { ClusterError } from '../errors.ts';
import { MAX_KUBECONFIG_BYTES, readKubeAccess } from './kubeconfig-file.ts';
import { readCaller, type Caller } from '../curator/caller.ts';
import { certificateAge } from '../curator/operator-certificate.ts';
import { saveWorkspaceCa } from '../curator/known-ca.ts';
import { followServersCas } from './servers-ca.ts';

/**
 * The roles owner, operator and viewer may list nodes. Without permission nobody else can, so this request proves the
 * identity.
 */
const MEMBERS_ONLY_PATH = '/api/v1/nodes?limit=1';

/**
 * Replaces the kubeconfig of the workspace: creates a new key and requests a certificate, signed with the key of the caller. The old
 * file, which may be expired or missing, stays until the new one is complete.
 * @throws ClusterError `cluster-no-kubeconfig` when the grant of the caller has no Kubernetes data, `cluster-result-invalid`; errors
 * of `callCurator`
 */
export async function renewKubeconfig(context: CommandContext): Promise<void> {
  const { files } = context.ports;
  const { kubeconfig: path } = layoutOf(context.paths.workspace);
  const caller = await readCaller(context);
  const { kubernetes, clusterId } = caller;
  if (kubernetes === undefined)
    throw new ClusterError(
      'cluster-no-kubeconfig',
      `cannot renew ${path}: the grant of this operator has no Kubernetes data: an owner creates a new one with cluster operator add`,
    );
  const keyPem = generateKeyPem();
  const certificateRequest = await createCertificateRequest(keyPem, 'kubernetes-client');
  const asked = {
    certificateRequest,
    operatorPublicKey: spkiDerOf(createPublicKey(createPrivateKey(caller.keyPem.reveal()))),
    signature: signEd25519(caller.keyPem, kubeconfigStatement({ clusterId, certificateRequest })),
    mutation: newMutation(),
  };
  const { certificatePem, kubernetesCaPem: told } = await callCurator(context, ({ operatorApi }) =>
    operatorApi.issueKubeconfig(asked),
  );
  const known = kubernetes.caPem;
  const followed = await followServersCas(context, { known, told });
  const caPem = followed?.kubernetesCaPem ?? known;
  const isByKnownCa = checkCertificate(certificatePem, { caPem: known, keyPem });
  const server = await knownServer(files, path, kubernetes);
  const access: KubeAccess = { server, caPem, certPem: certificatePem, keyPem };
  // A rotation may have replaced the client CA since the init. Then only a request to the API server shows
  // whether the certificate is valid.
  if (!isByKnownCa) await proveAccess(context, access);
  if (followed !== undefined) await saveWorkspaceCa(files, caller.caFile, followed);
  await files.writeAtomic(path, renderKubeconfig(await caller.readName(), access), { mode: 0o600 });
  const { validTo } = new X509Certificate(certificatePem);
  context.host.say('kubeconfig-renewed', `Renewed ${path}; valid until ${new Date(validTo).toISOString()}.`, {
    path,
    notAfterMs: Date.parse(validTo),
  });
}

/**
 * The Kubernetes endpoint and CA that a new operator needs for a kubeconfig; undefined if the caller does not
 * have them.
 */
export async function kubernetesEndpointOf({ ports, paths }: CommandContext, caller: Caller) {
  const { kubernetes } = caller;
  if (kubernetes === undefined) return undefined;
  const { kubeconfig } = layoutOf(paths.workspace);
  return {
    ...kubernetes,
    clusterName: await caller.readName(),
    server: await knownServer(ports.files, kubeconfig, kubernetes),
  };
}

/**
 * The API server in the existing kubeconfig, whose address the user may have edited; without one, the server
 * in the grant.
 */
async function knownServer(
  files: Pick<FilePort, 'read'>,
  path: string,
  { server }: Pick<KubernetesEndpoint, 'server'>,
): Promise<string> {
  const raw = await files.read(path, MAX_KUBECONFIG_BYTES);
  return raw === undefined || raw.length === 0
    ? server
    : accessFromKubeconfig(Buffer.from(raw).toString('utf8'), path).server;
}

/** Commands that have failed to renew the kubeconfig. They do not try again at each of their Kubernetes requests. */
const tried = new WeakSet<CommandContext>();

/**
 * Credentials of the workspace for the Kubernetes API. The kubeconfig is renewed first when due; if that fails, the old
 * one is used until it expires.
 * @throws ClusterError `cluster-no-kubeconfig`; the error of the renewal when the kubeconfig is expired
 */
export async function currentKubeAccess(context: CommandContext): Promise<KubeAccess> {
  const { ports, paths } = context;
  const layout = layoutOf(paths.workspace);
  const access = await readKubeAccess(ports.files, layout);
  const age = certificateAge(access.certPem, ports.clock.nowMs());
  // With --identity, the caller is not the operator to whom the kubeconfig of the workspace belongs.
  if (age === 'valid' || paths.identity !== undefined || (age === 'due' && tried.has(context))) return access;
  if (!isIssuedByCluster(access.certPem)) return access;
  try {
    await renewKubeconfig(context);
  } catch (error) {
    context.signal.throwIfAborted();
    if (age === 'expired') throw error;
    tried.add(context);
  }
  return readKubeAccess(ports.files, layout);
}

/** Whether the CA signed the certificate. @throws ClusterError `cluster-result-invalid` when it is not for this key */
export function checkCertificate(
  certPem: string,
  by: { readonly caPem: string; readonly keyPem: Secret<string> },
): boolean {
  let certificate;
  try {
    certificate = new X509Certificate(certPem);
  } catch {
    throw invalid('malformed certificate');
  }
  if (!certificate.checkPrivateKey(createPrivateKey(by.keyPem.reveal())))
    throw invalid('certificate is for a different key');
  return certificate.verify(new X509Certificate(by.caPem).publicKey);
}

/**
 * Whether `renewKubeconfig` has requested this certificate. Any other certificate was put into the workspace by the
 * user and is not replaced.
 */
function isIssuedByCluster(certPem: string): boolean {
  const { subject } = new X509Certificate(certPem);
  return Object.values(KUBERNETES_GROUPS).some((group) => subject.split('\n').includes(`O=${group}`));
}

async function proveAccess({ ports, signal }: CommandContext, access: KubeAccess): Promise<void> {
  using client = new KubeClient(access, ports);
  try {
    await client.getText(MEMBERS_ONLY_PATH, signal);
  } catch (error) {
    if (error instanceof KubeError && error.code === 'kube-refused')
      throw invalid('issued by a CA that the API server does not trust', error);
    throw error;
  }
}

function invalid(why: string, cause?: unknown): ClusterError {
  return new ClusterError('cluster-result-invalid', `verifying kubeconfig certificate: ${why}`, {
    cause,
  });
}
