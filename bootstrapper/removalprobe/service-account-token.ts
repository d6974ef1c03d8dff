import { sign } from 'node:crypto';
import { Secret } from '../../internal/secret/index.ts';
import { LIFE_SECONDS } from './test-credentials.ts';

/** `--service-account-issuer` as kubeadm sets it. */
const ISSUER = 'https://kubernetes.default.svc.cluster.local';

/** The namespace that is there for what everybody may see: nothing is granted to its account. */
export const ACCOUNT = { namespace: 'kube-public', name: 'default' } as const;
export const ACCOUNT_PATH = `/api/v1/namespaces/${ACCOUNT.namespace}/serviceaccounts/${ACCOUNT.name}`;

/**
 * A token of that account (RFC 7519, ES256), as an API server makes them. An account that is there has to be named: of
 * one that is not, no key's token would be taken, and nothing would be proved.
 */
export function createServiceAccountToken(
  keyPem: Secret<string>,
  { uid, nowMs }: { readonly uid: string; readonly nowMs: number },
): Secret<string> {
  const { namespace, name } = ACCOUNT;
  const issued = Math.floor(nowMs / 1000);
  const claims = {
    iss: ISSUER,
    aud: [ISSUER],
    sub: `system:serviceaccount:${namespace}:${name}`,
    iat: issued,
    nbf: issued,
    exp: issued + LIFE_SECONDS,
    'kubernetes.io': { namespace, serviceaccount: { name, uid } },
  };
  const signed = `${encode({ alg: 'ES256', typ: 'JWT' })}.${encode(claims)}`;
  const key = { key: keyPem.reveal(), dsaEncoding: 'ieee-p1363' } as const;
  return new Secret(`${signed}.${sign('sha256', Buffer.from(signed), key).toString('base64url')}`);
}

/** The account's uid as an API server tells it; undefined where it tells none. */
export function uidIn(body: string): string | undefined {
  try {
    const { metadata } = JSON.parse(body) as { readonly metadata?: { readonly uid?: unknown } };
    return typeof metadata?.uid === 'string' ? metadata.uid : undefined;
  } catch {
    return undefined;
  }
}

function encode(part: object): string {
  return Buffer.from(JSON.stringify(part)).toString('base64url');
}
