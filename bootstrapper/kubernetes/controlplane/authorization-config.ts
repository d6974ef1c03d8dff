import { dirname } from 'node:path';
import type { FilePort } from '../../../internal/file/index.ts';
import { KUBERNETES_GROUPS } from '../../../internal/role/index.ts';
import { PATHS, type EtcdClientFiles } from '../settings.ts';

const KUBECONFIG = `${dirname(PATHS.authorization)}/membership.json`;
/**
 * How long an API server caches a webhook decision. A removed kubelet or operator is refused after this time at the
 * latest.
 */
const CACHE_TTL = '5s';
const TIMEOUT = '3s';
/** The groups whose members have access only while the webhook finds a record of them. */
const GROUPS = ['system:nodes', KUBERNETES_GROUPS.operator, KUBERNETES_GROUPS.viewer];
/** CEL expression: the API server sends only the requests of kubelets, operators and viewers to the webhook. */
const IS_MEMBER = [
  "request.user.startsWith('system:node:')",
  `(has(request.groups) && request.groups.exists(group, group in ['${GROUPS.join("', '")}']))`,
].join(' || ');
/**
 * CEL expression that matches the certificates of owners. Their UID is the hash of the owner's key; other
 * administrators have no such UID.
 */
const IS_OWNER = [
  "has(request.uid) && request.uid.startsWith('sha256:')",
  `has(request.groups) && '${KUBERNETES_GROUPS.owner}' in request.groups`,
].join(' && ');

/** The values in the authorization configuration. */
export interface AuthorizationOptions {
  /** Id of this node. The certificate of its join service contains this id. */
  readonly nodeId: string;
  readonly clusterCaPem: string;
  /** Loopback port of the webhook. */
  readonly port: number;
  /**
   * Client certificate of the API server. It is the same certificate that the API server presents to etcd.
   */
  readonly client: Pick<EtcdClientFiles, 'certFile' | 'keyFile'>;
}

/**
 * Writes the authorization configuration: the membership webhook of the join service, then the authorizers of
 * Kubernetes. If the webhook does not answer, the API server denies kubelets and operators. Otherwise a removed kubelet
 * or operator could regain access by overloading the join service. Owners are not denied then, because an owner must be
 * able to repair a cluster in which no join service responds.
 */
export async function writeAuthorizationConfig(
  files: FilePort,
  options: AuthorizationOptions,
): Promise<void> {
  await files.makeDirectory(dirname(KUBECONFIG));
  await files.writeAtomic(KUBECONFIG, text(membershipKubeconfig(options)));
  await files.writeAtomic(PATHS.authorization, text(authorizationConfiguration()));
}

/** Builds an AuthorizationConfiguration (apiserver.config.k8s.io/v1). */
function authorizationConfiguration(): object {
  return {
    apiVersion: 'apiserver.config.k8s.io/v1',
    kind: 'AuthorizationConfiguration',
    authorizers: [
      webhook('membership', { failurePolicy: 'Deny', expression: IS_MEMBER }),
      webhook('owners', { failurePolicy: 'NoOpinion', expression: IS_OWNER }),
      { type: 'Node', name: 'node' },
      { type: 'RBAC', name: 'rbac' },
    ],
  };
}

function webhook(
  name: string,
  {
    failurePolicy,
    expression,
  }: { readonly failurePolicy: 'Deny' | 'NoOpinion'; readonly expression: string },
): object {
  return {
    ...{ type: 'Webhook', name },
    webhook: {
      ...{ authorizedTTL: CACHE_TTL, unauthorizedTTL: CACHE_TTL, timeout: TIMEOUT },
      subjectAccessReviewVersion: 'v1',
      matchConditionSubjectAccessReviewVersion: 'v1',
      failurePolicy,
      connectionInfo: { type: 'KubeConfigFile', kubeConfigFile: KUBECONFIG },
      matchConditions: [{ expression }],
    },
  };
}

/**
 * Builds the kubeconfig for the webhook. Its server is the join service of this node, whose certificate
 * contains the node id.
 */
function membershipKubeconfig({ nodeId, clusterCaPem, port, client }: AuthorizationOptions): object {
  const name = 'membership';
  return {
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [
      {
        name,
        cluster: {
          server: `https://127.0.0.1:${port}/authorize`,
          'tls-server-name': nodeId,
          'certificate-authority-data': Buffer.from(clusterCaPem, 'utf8').toString('base64'),
        },
      },
    ],
    users: [{ name, user: { 'client-certificate': client.certFile, 'client-key': client.keyFile } }],
    contexts: [{ name, context: { cluster: name, user: name } }],
    'current-context': name,
  };
}

function text(document: object): string {
  return `${JSON.stringify(document, undefined, 2)}\n`;
}
