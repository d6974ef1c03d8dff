import { withTimeout } from '../../internal/cleanup/index.ts';
import type { Clock } from '../../internal/clock/index.ts';
import { KubeClient, KubeError } from '../../internal/kube/client/index.ts';
import type { Secret } from '../../internal/secret/index.ts';
import type { AskAboutToken } from './token-reviews.ts';

const ASK_MS = 3_000;
const PATH = '/apis/authorization.k8s.io/v1/selfsubjectaccessreviews';
/** The right to read metrics. Prometheus needs the same right at API servers and kubelets. */
const REVIEW = {
  apiVersion: 'authorization.k8s.io/v1',
  kind: 'SelfSubjectAccessReview',
  spec: { nonResourceAttributes: { path: '/metrics', verb: 'get' } },
};

/** "https://HOST:PORT" of the API servers, and their CA. */
interface ApiServers {
  readonly server: string;
  readonly caPem: string;
}

/** @throws TypeError for a response that is no review */
function isAllowed(answer: unknown): boolean {
  const { allowed } = (answer as { readonly status?: { readonly allowed?: unknown } } | null)?.status ?? {};
  if (typeof allowed !== 'boolean') throw new TypeError('the response is no SelfSubjectAccessReview');
  return allowed;
}

/**
 * Asks the API server as the holder of the token what the token may do (SelfSubjectAccessReview), so that this node needs no
 * credential of its own.
 */
export function askApiServer(access: ApiServers, clock: Clock): AskAboutToken {
  return async (token, signal) => {
    if (await review(access, token, { clock, signal })) return true;
    await requireReady(access, { clock, signal });
    return false;
  };
}

interface AskPorts {
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

async function review(
  access: ApiServers,
  token: Secret<string>,
  { clock, signal }: AskPorts,
): Promise<boolean> {
  using client = new KubeClient({ ...access, token }, { clock });
  try {
    const answer = await withTimeout({ what: 'reviewing a token', ms: ASK_MS, clock, signal }, (child) =>
      client.postJson(PATH, REVIEW, child),
    );
    return isAllowed(answer);
  } catch (error) {
    if (error instanceof KubeError && error.code === 'kube-refused') return false;
    throw error;
  }
}

/**
 * An API server that restarts without etcd refuses everybody, because it cannot look up tokens and rights. A refusal counts only if the
 * API server is ready.
 * @throws KubeError when it is not ready
 */
async function requireReady(access: ApiServers, { clock, signal }: AskPorts): Promise<void> {
  using client = new KubeClient({ ...access, token: undefined }, { clock });
  await withTimeout({ what: 'asking whether the API is ready', ms: ASK_MS, clock, signal }, (child) =>
    client.getText('/readyz', child),
  );
}
