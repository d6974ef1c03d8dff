import type { ProbeAnswer } from './probe-endpoint.ts';
import type { CaName } from './signing-keys.ts';
import type { TestCredentialName } from './test-credentials.ts';

/** A curator's request for a removal probe. */
export interface RemovalProbeRequest {
  /** Id of the node that was removed from the cluster: its credentials are tested. */
  readonly nodeId: string;
  /**
   * Whether the node held the keys of a control plane. If so, credentials created with these keys are tested
   * as well.
   */
  readonly heldKeys: boolean;
  /**
   * Generation of these keys. 0: the current keys, and only the credentials that agents tested before
   * requests named a generation.
   */
  readonly generation: number;
}

/** An endpoint to which test credentials are presented. */
export interface Endpoint {
  readonly kind: EndpointKind;
  /** Name of the node that runs this endpoint. */
  readonly node: string;
  readonly host: string;
  readonly port: number;
}

/** The conclusion from an endpoint's answer. */
export interface Verdict {
  readonly outcome: 'refused' | 'admitted' | 'inconclusive';
  /** The answer in words, for the operator. */
  readonly detail: string;
}

/** The credentials and the CA for probing one kind of endpoint. */
interface EndpointRule {
  /** The CA that must have issued the server's certificate. */
  readonly serverCa: CaName;
  /** Control-plane credentials for other endpoints. This endpoint must always refuse them. */
  readonly foreign: readonly TestCredentialName[];
  /**
   * Credentials that are created with the keys that the removed node may have held. They are for endpoints
   * that trust these keys.
   */
  readonly held: readonly TestCredentialName[];
}

const OF_KUBERNETES = ['kubernetes-user', 'kubernetes-server', 'service-account'] as const;

/**
 * Kinds of endpoints, and what is tested there in addition to the certificates of the removed node. `etcd-*`
 * are the ports of the Kubernetes etcd, `state-etcd-*` those of the state etcd.
 */
export const ENDPOINT_RULES = {
  'etcd-client': rule('etcd-clients-ca', ['etcd-client'], ['state-etcd-client']),
  'etcd-peer': rule('etcd-peers-ca', ['etcd-peer'], ['etcd-client', 'state-etcd-peer']),
  'state-etcd-client': rule('state-clients-ca', ['state-etcd-client'], ['etcd-client']),
  'state-etcd-peer': rule('state-peers-ca', ['state-etcd-peer'], ['state-etcd-client', 'etcd-peer']),
  'api-server': rule('kubernetes-ca', [...OF_KUBERNETES, 'front-proxy']),
  kubelet: rule('kubernetes-ca', OF_KUBERNETES),
  // The CLI checks the record of the node's own key. This probe checks certificates that the key of the
  // cluster CA could sign.
  curator: rule('cluster-ca', ['member', 'operator']),
};

function rule(
  serverCa: CaName,
  held: readonly TestCredentialName[],
  foreign: readonly TestCredentialName[] = [],
): EndpointRule {
  return { serverCa, held, foreign };
}

/** A kind of endpoint, as reports name it. */
export type EndpointKind = keyof typeof ENDPOINT_RULES;

/** Credentials that agents tested before requests named a generation. */
const WITHOUT_GENERATION = /etcd|kubernetes-user/;

/**
 * The credentials that are tested at a kind of endpoint, with the generation of the keys that create them (0:
 * the current keys). The certificates that the removed node had are not tested at curators: the CLI checks
 * the record of the node's key instead. Pure.
 */
export function credentialsFor(
  kind: EndpointKind,
  { heldKeys, generation }: Omit<RemovalProbeRequest, 'nodeId'>,
): readonly { readonly name: TestCredentialName; readonly generation: number }[] {
  const { foreign, held } = ENDPOINT_RULES[kind];
  const ofNode: readonly TestCredentialName[] = kind === 'curator' ? [] : ['node', 'kubelet'];
  const current = [...ofNode, ...(heldKeys ? foreign : [])].map((name) => ({ name, generation: 0 }));
  if (!heldKeys) return current;
  const ofHeldKeys = held.filter((name) => generation > 0 || WITHOUT_GENERATION.test(name));
  return [...current, ...ofHeldKeys.map((name) => ({ name, generation }))];
}

/** The requested path. `name` is a node whose kubelet may read its own Node object. */
export function pathFor(kind: EndpointKind, name: string): string {
  if (isEtcd(kind)) return '/version';
  return kind === 'api-server' ? `/api/v1/nodes/${name}` : '/pods';
}

/**
 * Whether this is an etcd endpoint. etcd refuses certificates in the TLS handshake; the other servers
 * authenticate each request.
 */
function isEtcd(kind: EndpointKind): boolean {
  return /^(state-)?etcd-/.test(kind);
}

/**
 * Decides what an answer proves. Only a refusal for the expected reason counts. Other refusals affect all
 * clients: the server's clock makes the certificate not yet valid, the port is closed, or the server fails.
 * Pure.
 */
export function judgeAnswer(
  kind: EndpointKind,
  credential: TestCredentialName,
  answer: ProbeAnswer,
): Verdict {
  switch (answer.kind) {
    case 'failed':
      return { outcome: 'inconclusive', detail: answer.why };
    case 'alert': {
      const isRefused = isEtcd(kind) && answer.alert === 'UNKNOWN_CA';
      const detail = `TLS: ${answer.alert.toLowerCase().replaceAll('_', ' ')}`;
      return { outcome: isRefused ? 'refused' : 'inconclusive', detail };
    }
    case 'code':
      return { outcome: CURATOR_OUTCOMES[answer.code] ?? 'inconclusive', detail: answer.code };
    case 'status': {
      if (kind === 'curator') return { outcome: 'admitted', detail: 'answered' };
      const message = stringIn(answer.body, 'message');
      const detail = `HTTP ${answer.status}${message === undefined ? '' : `: ${message.slice(0, 300)}`}`;
      return { outcome: isEtcd(kind) ? 'admitted' : outcomeOf(answer.status, credential), detail };
    }
  }
}

/**
 * Results of a curator's error codes. A curator refuses keys without a record. If a curator only denies the
 * call, it knows the caller.
 */
const CURATOR_OUTCOMES: Readonly<Partial<Record<string, Verdict['outcome']>>> = {
  'curator-not-member': 'refused',
  'curator-denied': 'admitted',
};

/**
 * Returns the result of an HTTP status. 403 and 404 mean that the server authenticated the credential, so
 * another credential of the same key could have permissions. A kubelet is the exception: 403 is the expected
 * refusal by its record, and 401 means that its CA is not trusted, so no record was checked.
 */
function outcomeOf(status: number, credential: TestCredentialName): Verdict['outcome'] {
  if (status === (credential === 'kubelet' ? 403 : 401)) return 'refused';
  const isAuthenticated = status === 403 || status === 404 || (status >= 200 && status < 300);
  return isAuthenticated ? 'admitted' : 'inconclusive';
}

/** The string at a path in a JSON body, e.g. the `message` of a Kubernetes Status; undefined in any other body. */
export function stringIn(body: string, ...path: readonly string[]): string | undefined {
  try {
    let found: unknown = JSON.parse(body);
    for (const name of path) found = (found as Readonly<Record<string, unknown>>)[name];
    return typeof found === 'string' ? found : undefined;
  } catch {
    return undefined;
  }
}
