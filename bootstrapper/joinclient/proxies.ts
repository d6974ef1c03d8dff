/** What programs commonly take for a proxy to the outside, in the environment of a process. */
const VARIABLES = ['https_proxy', 'http_proxy', 'grpc_proxy', 'all_proxy'] as const;

/**
 * Proxies that somebody has configured for this process, as "NAME=scheme://host:port"; a password in one is left out. The
 * way to a cluster uses none: evidence binds the two ends of a connection, and a proxy would have to be told whom to reach.
 */
export function proxiesIn(environment: Readonly<Record<string, string | undefined>>): readonly string[] {
  return VARIABLES.flatMap((name) => [name, name.toUpperCase()]).flatMap((name) => {
    const value = environment[name]?.trim() ?? '';
    return value === '' ? [] : [`${name}=${withoutSecrets(value)}`];
  });
}

function withoutSecrets(value: string): string {
  const url = URL.parse(value.includes('://') ? value : `http://${value}`);
  return url === null ? '(no URL)' : `${url.protocol}//${url.host}`;
}
