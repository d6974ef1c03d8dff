import type { FilePort } from '../../../internal/file/index.ts';
import { PATHS, type EtcdClientFiles } from '../settings.ts';

const KUBECONFIG = `${PATHS.authorization.slice(0, PATHS.authorization.lastIndexOf('/'))}/membership.json`;
/** A removed kubelet is refused this long after its record has gone, at most; members are asked about as rarely. */
const REMEMBERED = '5s';
const TIMEOUT = '3s';
/** CEL. Everybody who says to be a kubelet, and nobody else, needs the join service to answer. */
const IS_KUBELET =
  "request.user.startsWith('system:node:') || (has(request.groups) && 'system:nodes' in request.groups)";

export interface AuthorizationOptions {
  /** Of this node: its join service shows it. */
  readonly nodeId: string;
  readonly clusterCaPem: string;
  readonly port: number;
  /** The API server's own, with which it also proves itself to etcd. */
  readonly client: Pick<EtcdClientFiles, 'certFile' | 'keyFile'>;
}

/**
 * What the API server reads about authorization: membership first, then Kubernetes' own. Where membership cannot be asked
 * a kubelet is denied: with no opinion instead, a removed node would only have to keep the join service busy.
 */
export async function writeAuthorizationConfig(files: FilePort, place: AuthorizationOptions): Promise<void> {
  await files.makeDirectory(KUBECONFIG.slice(0, KUBECONFIG.lastIndexOf('/')));
  await files.writeAtomic(KUBECONFIG, text(membershipKubeconfig(place)));
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
          authorizedTTL: REMEMBERED,
          unauthorizedTTL: REMEMBERED,
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

/** The server is this node's own join service: its certificate carries the node's id. */
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
