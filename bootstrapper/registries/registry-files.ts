import { createHash } from 'node:crypto';
import {
  serverOfMirror,
  serverOfRegistry,
  type RegistriesConfig,
  type RegistryConfig,
} from '../../internal/config/index.ts';
import { Secret } from '../../internal/secret/index.ts';

/** First line of each hosts.toml that the agent has written. A directory without it belongs to an operator. */
export const MARKER =
  '# Written by cluster from `registries` in cluster.yaml; changes are lost. Without this line the agent leaves this file alone.';

/** Names of the CA files that the agent writes. containerd loads files named *.crt even without a hosts.toml. */
export const CA_FILE = /^ca-[0-9a-f]{16}\.pem$/;

/** User name and password, "USER:PASSWORD", by server ("host" or "host:port"). */
export type RegistryCredentials = ReadonlyMap<string, Secret<string>>;

/** The directory of one registry: its hosts.toml, which can contain passwords, and the CA files that it names. */
export interface RegistryDirectory {
  /** Name of the directory in certs.d. */
  readonly name: string;
  /** Other names under which containerd finds a directory of this registry. */
  readonly aliases: readonly string[];
  readonly hostsToml: Secret<string>;
  /** Text of each CA file, by its name. */
  readonly cas: ReadonlyMap<string, string>;
}

/** A server from which containerd requests images. */
interface Endpoint {
  readonly url: string;
  readonly isMirror: boolean;
  readonly ca: string | undefined;
  readonly login: Secret<string> | undefined;
}

/**
 * The files of all registries (docs/hosts.md of containerd). The schema of cluster.yaml allows only names, URLs and CAs that need
 * no quoting in TOML.
 * @param root directory of all registries
 */
export function registryDirectories(
  registries: RegistriesConfig,
  credentials: RegistryCredentials,
  root: string,
): readonly RegistryDirectory[] {
  return registries.map((registry) => {
    // containerd looks for this form first if a name has a port (core/remotes/docker/config/config_unix.go).
    const name = registry.name.replace(/:([0-9]+)$/, '_$1_');
    const endpoints = endpointsOf(registry, credentials);
    const cas = endpoints.flatMap(({ ca }): [string, string][] =>
      ca === undefined ? [] : [[caFileOf(ca), ca]],
    );
    return {
      name,
      aliases: name === registry.name ? [] : [registry.name],
      hostsToml: new Secret(hostsToml(endpoints, `${root}/${name}`)),
      cas: new Map(cas),
    };
  });
}

/** The servers of a registry in the order in which nodes ask them. */
function endpointsOf(
  { name, mirrors, fallback, ca, credentials: hasLogin }: RegistryConfig,
  credentials: RegistryCredentials,
): readonly Endpoint[] {
  const login = (isUsed: boolean, server: string): Secret<string> | undefined =>
    isUsed ? credentials.get(server) : undefined;
  const server = serverOfRegistry(name);
  const own = { url: `https://${server}`, isMirror: false, ca, login: login(hasLogin, server) };
  return [
    ...mirrors.map((each) => ({
      ...{ url: each.url, isMirror: true, ca: each.ca },
      login: login(each.credentials, serverOfMirror(each.url)),
    })),
    ...(fallback ? [own] : []),
  ];
}

/** Renders a hosts.toml. The last endpoint is its `server`, which containerd calls only after all `host` entries. */
function hostsToml(endpoints: readonly Endpoint[], directory: string): string {
  const [server] = endpoints.slice(-1);
  const hosts = endpoints
    .slice(0, -1)
    .flatMap((host) => [
      `[host."${host.url}"]`,
      ...settingsOf(host, directory),
      ...headerOf(`host."${host.url}".header`, host),
    ]);
  const root =
    server === undefined
      ? []
      : [`server = "${server.url}"`, ...settingsOf(server, directory), ...headerOf('header', server)];
  return [MARKER, ...root, ...hosts, ''].join('\n');
}

function settingsOf({ url, isMirror, ca }: Endpoint, directory: string): readonly string[] {
  // A path that begins with /v2/ is complete. Without `override_path`, containerd would append another /v2.
  const isWhole = new URL(url).pathname.startsWith('/v2/');
  return [
    ...(isMirror ? ['capabilities = ["pull", "resolve"]'] : []),
    ...(isWhole ? ['override_path = true'] : []),
    ...(ca === undefined ? [] : [`ca = ["${directory}/${caFileOf(ca)}"]`]),
  ];
}

/**
 * containerd sends the header with each request and with the request for a token, and not to another host that the registry
 * redirects to.
 */
function headerOf(table: string, { login }: Endpoint): readonly string[] {
  if (login === undefined) return [];
  return [
    `[${table}]`,
    `Authorization = ["Basic ${Buffer.from(login.reveal(), 'utf8').toString('base64')}"]`,
  ];
}

/** The name of a CA file depends on its content, so that a hosts.toml never names a file with other content. */
function caFileOf(ca: string): string {
  return `ca-${createHash('sha256').update(ca).digest('hex').slice(0, 16)}.pem`;
}
