import { createPrivateKey, createPublicKey, randomUUID, X509Certificate } from 'node:crypto';
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
import type { Secret } from '../../../internal/secret/index.ts';
import { OperatorApi } from '../../../joinservice/curatorproto/gen/operatorapi_pb.js';
import type { CommandContext } from '../../app/command.ts';
import { layoutOf, type KubernetesEndpoint } from '../../workspace/index.ts';
import { callCurator } from '../curator/call-curator.ts';
import { ClusterError } from '../errors.ts';
import { readKubeAccess } from './kubeconfig-file.ts';
import { readCaller, type Caller } from '../curator/caller.ts';
import { certificateAge } from '../curator/operator-certificate.ts';

const MAX_KUBECONFIG_BYTES = 1024 * 1024;
/** What an administrator may read, and nobody else. */
const LOOK = '/api/v1/secrets?limit=1';

/**
 * A kubeconfig with a new key, made here, and a certificate that a curator had signed because the owner's key asks for it.
 * The old one stays until the new one is there, also where it has run out or is gone.
 */
export async function renewKubeconfig(context: CommandContext): Promise<void> {
  const { files } = context.ports;
  const { kubeconfig: path } = layoutOf(context.paths.workspace);
  const member = await readCaller(context);
  const { kubernetes, clusterId } = member;
  if (kubernetes === undefined)
    throw new ClusterError('cluster-no-kubeconfig', `renewing ${path}: no owner’s grant says how`);
  const keyPem = generateKeyPem();
  const certificateRequest = await createCertificateRequest(keyPem, 'kubernetes-admin');
  const asked = {
    certificateRequest,
    operatorPublicKey: spkiDerOf(createPublicKey(createPrivateKey(member.keyPem.reveal()))),
    signature: signEd25519(member.keyPem, kubeconfigStatement({ clusterId, certificateRequest })),
    mutation: { idempotencyKey: randomUUID() },
  };
  const { certificatePem } = await callCurator(context, (_, call, of) =>
    of(OperatorApi).issueKubeconfig(asked, call),
  );
  // Servers are known by the CA that came with the init or the grant: an answer cannot bring another one.
  const { caPem } = kubernetes;
  const isOfInit = checkCertificate(certificatePem, { caPem, keyPem });
  const server = await knownServer(files, path, kubernetes);
  const access: KubeAccess = { server, caPem, certPem: certificatePem, keyPem };
  // The authority of clients may have been replaced since the init: whether this is one, the API server says.
  if (!isOfInit) await proveAccess(context, access);
  await files.writeAtomic(path, renderKubeconfig(kubernetes.clusterName, access), { mode: 0o600 });
  const { validTo } = new X509Certificate(certificatePem);
  context.host.say('kubeconfig-renewed', `${path} is good until ${validTo}.`, {
    path,
    notAfterMs: Date.parse(validTo),
  });
}

/** What an owner who is added needs for a kubeconfig; undefined where it is not known here. */
export async function kubernetesEndpointOf({ ports, paths }: CommandContext, member: Caller) {
  const { kubernetes } = member;
  if (kubernetes === undefined) return undefined;
  const { kubeconfig } = layoutOf(paths.workspace);
  return { ...kubernetes, server: await knownServer(ports.files, kubeconfig, kubernetes) };
}

/** The one of the kubeconfig that there is, which somebody may have written into it. */
async function knownServer(
  files: Pick<FilePort, 'read'>,
  path: string,
  { server }: KubernetesEndpoint,
): Promise<string> {
  const raw = await files.read(path, MAX_KUBECONFIG_BYTES);
  return raw === undefined ? server : accessFromKubeconfig(Buffer.from(raw).toString('utf8'), path).server;
}

/** Commands whose kubeconfig could not be renewed: those that look at Kubernetes again and again ask no curator each time. */
const tried = new WeakSet<CommandContext>();

/**
 * How this workspace gets into Kubernetes. Past two thirds of its life an owner's kubeconfig is renewed first; where that
 * fails the old one will do until it has run out, and one try is enough for a command.
 */
export async function currentKubeAccess(context: CommandContext): Promise<KubeAccess> {
  const { ports, paths } = context;
  const layout = layoutOf(paths.workspace);
  const access = await readKubeAccess(ports.files, layout);
  const age = certificateAge(access.certPem, ports.clock.nowMs());
  // With an identity from elsewhere the kubeconfig here is that of somebody else.
  if (age === 'good' || paths.identity !== undefined || (age === 'due' && tried.has(context))) return access;
  if (!(await readCaller(context)).isOwner) return access;
  try {
    await renewKubeconfig(context);
  } catch (error) {
    context.signal.throwIfAborted();
    if (age === 'over') throw error;
    tried.add(context);
  }
  return readKubeAccess(ports.files, layout);
}

/** Answers whether that CA has signed it. @throws ClusterError `cluster-result-invalid` for what is no use with this key */
export function checkCertificate(
  certPem: string,
  by: { readonly caPem: string; readonly keyPem: Secret<string> },
): boolean {
  let certificate;
  try {
    certificate = new X509Certificate(certPem);
  } catch {
    throw invalid('it cannot be read');
  }
  if (!certificate.checkPrivateKey(createPrivateKey(by.keyPem.reveal()))) throw invalid('for another key');
  return certificate.verify(new X509Certificate(by.caPem).publicKey);
}

async function proveAccess({ ports, signal }: CommandContext, access: KubeAccess): Promise<void> {
  using client = new KubeClient(access, ports);
  try {
    await client.getText(LOOK, signal);
  } catch (error) {
    if (error instanceof KubeError && error.code === 'kube-refused')
      throw invalid('another CA signed it, and the API server does not believe that one', error);
    throw error;
  }
}

function invalid(why: string, cause?: unknown): ClusterError {
  return new ClusterError('cluster-result-invalid', `checking the certificate of the kubeconfig: ${why}`, {
    cause,
  });
}
