import { dirname } from 'node:path';
import { z } from 'zod';
import {
  RESERVED_PREFIXES,
  type AuthenticationConfig,
  type IssuerConfig,
} from '../../../internal/config/index.ts';
import { readText, type FilePort } from '../../../internal/file/index.ts';
import { hardeningOf } from '../hardening.ts';
import { PATHS, type KubernetesSettings } from '../settings.ts';

/**
 * Paths that load balancers and probes request without credentials. The paths of single checks below them need
 * credentials.
 */
const HEALTH_PATHS = ['/healthz', '/livez', '/readyz'] as const;

const written = z.object({ jwt: z.array(z.unknown()) });

/**
 * Writes the authentication configuration of the API server, which reads it again when it changes. Requests without
 * credentials are allowed only for the health of the API server; for any other path it responds 401 before an
 * authorizer runs.
 * @param authentication issuers whose tokens are accepted. If undefined, the issuers in the file are kept: an API
 * server may start before this node has verified the configuration of the cluster, and must still accept logins then
 * @returns whether the file changed
 */
export async function writeAuthenticationConfig(
  files: FilePort,
  settings: Pick<KubernetesSettings, 'hardening'>,
  authentication?: AuthenticationConfig,
): Promise<boolean> {
  const before = await readText(files, PATHS.authentication);
  const jwt = authentication === undefined ? issuersIn(before) : authentication.issuers.map(jwtAuthenticator);
  const isHealthOnly = hardeningOf(settings).anonymousRequests === 'health';
  const conditions = isHealthOnly ? { conditions: HEALTH_PATHS.map((path) => ({ path })) } : {};
  // AuthenticationConfiguration (apiserver.config.k8s.io/v1). The API server refuses a change of `anonymous` until it restarts.
  const document = {
    apiVersion: 'apiserver.config.k8s.io/v1',
    kind: 'AuthenticationConfiguration',
    jwt,
    anonymous: { enabled: true, ...conditions },
  };
  const text = `${JSON.stringify(document, undefined, 2)}\n`;
  if (text === before) return false;
  await files.makeDirectory(dirname(PATHS.authentication));
  await files.writeAtomic(PATHS.authentication, text);
  return true;
}

function issuersIn(text: string | undefined): readonly unknown[] {
  try {
    return text === undefined ? [] : written.parse(JSON.parse(text)).jwt;
  } catch {
    // An API server refuses to start with a damaged file, so the file is written without issuers. They are added when
    // the configuration of the cluster is verified.
    return [];
  }
}

/** Builds a JWTAuthenticator. The schema of cluster.yaml allows only what the API server accepts. */
function jwtAuthenticator(issuer: IssuerConfig): object {
  const { url, discoveryUrl, ca, audiences, requiredClaims, groupsClaim } = issuer;
  const rules = Object.entries(requiredClaims).map(([claim, requiredValue]) => ({ claim, requiredValue }));
  return {
    issuer: {
      url,
      ...(discoveryUrl === undefined ? {} : { discoveryURL: discoveryUrl }),
      ...(ca === undefined ? {} : { certificateAuthority: ca }),
      audiences,
      audienceMatchPolicy: 'MatchAny',
    },
    ...(rules.length === 0 ? {} : { claimValidationRules: rules }),
    claimMappings: {
      username: { claim: issuer.usernameClaim, prefix: issuer.usernamePrefix },
      ...(groupsClaim === undefined ? {} : { groups: { claim: groupsClaim, prefix: issuer.groupsPrefix } }),
    },
    // Without prefixes an issuer could otherwise name its users like nodes, pods or administrators of this cluster.
    userValidationRules: [
      { expression: noneReserved('user.username'), message: 'this user name is reserved' },
      {
        expression: `user.groups.all(group, ${noneReserved('group')})`,
        message: 'the name of a group of this user is reserved',
      },
    ],
  };
}

/** A CEL expression: no reserved prefix. */
function noneReserved(name: string): string {
  return RESERVED_PREFIXES.map((prefix) => `!${name}.startsWith('${prefix}')`).join(' && ');
}
