import { z } from 'zod';
import { Secret } from '../../secret/index.ts';

/**
 * The Secret from which nodes read the credentials of registries. Its only key holds a configuration file in the format
 * of Docker.
 */
export const REGISTRY_CREDENTIALS = {
  namespace: 'kube-system',
  name: 'cluster-registry-credentials',
  /** Key of Secrets of the type kubernetes.io/dockerconfigjson. */
  key: '.dockerconfigjson',
} as const;

/** Names under which Docker's file has the credentials of docker.io. */
const DOCKER_HUB = ['docker.io', 'index.docker.io', 'registry.hub.docker.com'];

const entry = z.looseObject({
  auth: z.base64().optional(),
  username: z.string().optional(),
  password: z.string().optional(),
});
const file = z.looseObject({ auths: z.record(z.string(), entry) });

/**
 * Reads a configuration file of Docker (`docker login` writes one, Secrets of the type kubernetes.io/dockerconfigjson
 * have one).
 * @returns "USER:PASSWORD" by server ("host" or "host:port"); entries without a user name or password are left out
 * @throws Error that quotes nothing of the file
 */
export function parseRegistryLogins(text: string): ReadonlyMap<string, Secret<string>> {
  const logins = new Map<string, Secret<string>>();
  for (const [key, { auth, username, password }] of Object.entries(parsed(text).auths)) {
    const login =
      auth === undefined
        ? `${username ?? ''}:${password ?? ''}`
        : Buffer.from(auth, 'base64').toString('utf8');
    if (/^[^:\p{Cc}]+:[^\p{Cc}]+$/u.test(login)) logins.set(serverOfKey(key), new Secret(login));
  }
  return logins;
}

/** The file with these credentials, as `parseRegistryLogins()` reads it. */
export function renderRegistryLogins(logins: ReadonlyMap<string, Secret<string>>): Secret<string> {
  const auths = [...logins]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([server, login]) => [server, { auth: Buffer.from(login.reveal(), 'utf8').toString('base64') }]);
  return new Secret(JSON.stringify({ auths: Object.fromEntries(auths) as unknown }));
}

function parsed(text: string): z.output<typeof file> {
  let content: unknown;
  try {
    content = JSON.parse(text);
  } catch {
    throw new Error('it is not JSON');
  }
  const result = file.safeParse(content);
  if (result.success) return result.data;
  throw new Error('it has no `auths` with a base64 text `auth` for each server');
}

/** Docker writes hosts, and for docker.io the URL of an old API. */
function serverOfKey(key: string): string {
  const server = key
    .replace(/^https?:\/\//, '')
    .replace(/\/.*$/, '')
    .toLowerCase();
  return DOCKER_HUB.includes(server) ? 'registry-1.docker.io' : server;
}
