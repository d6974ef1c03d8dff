import { dirname } from 'node:path';
import type { FilePort } from '../../../internal/file/index.ts';
import { PATHS, type EtcdClientFiles } from '../settings.ts';

const KUBECONFIG = `${dirname(PATHS.authorization)}/membership.json`;
/** How long an API server caches a decision: a removed kubelet is refused at the latest after this time. */
const CACHE_TTL = '5s';
const TIMEOUT = '3s';
/** CEL: only requests of kubelets are sent to the webhook. */
const IS_KUBELET =
  "request.user.startsWith('system:node:') || (has(request.groups) && 'system:nodes' in request.groups)";

/** What the authorization configuration names. */
export interface AuthorizationOptions {
  /** Id of this node, which is in the certificate of its join service. */
  readonly nodeId: string;
  readonly clusterCaPem: string;
  /** Port of the webhook on the loopback. */
  readonly port: number;
  /** Client certificate of the API server; the same as for etcd. */
  readonly client: Pick<EtcdClientFiles, 'certFile' | 'keyFile'>;
}

/**
 * Writes the authorization configuration: the membership webhook of the join service, then the authorizers of Kubernetes. A
 * kubelet is denied where the webhook does not answer; otherwise a removed node could get in by overloading the join service.
 */
export async function writeAuthorizationConfig(
  files: FilePort,
  options: AuthorizationOptions,
): Promise<void> {
  await files.makeDirectory(dirname(KUBECONFIG));
  await files.writeAtomic(KUBECONFIG, text(membershipKubeconfig(options)));
  await files.writeAtomic(PATHS.authorization, text(authorizationConfiguration()));
}

/** apiserver.config.k8s.io/v1. */
function authorizationConfiguration(): object {
  return {
    apiVersion: 'apiserver.config.k8s.io/v1',
    kind: 'AuthorizationConfiguration',
    authorizers: [
      {
        type: 'Webhook',
        name: 'membership',
        webhook: {
          authorizedTTL: CACHE_TTL,
          unauthorizedTTL: CACHE_TTL,
          timeout: TIMEOUT,
          subjectAccessReviewVersion: 'v1',
          matchConditionSubjectAccessReviewVersion: 'v1',
          failurePolicy: 'Deny',
          connectionInfo: { type: 'KubeConfigFile', kubeConfigFile: KUBECONFIG },
          matchConditions: [{ expression: IS_KUBELET }],
        },
      },
      { type: 'Node', name: 'node' },
      { type: 'RBAC', name: 'rbac' },
    ],
  };
}

/** The server is the join service of this node, whose certificate has the node id. */
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
