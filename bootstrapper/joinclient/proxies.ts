/** Environment variables that programs commonly read for a proxy. */
const VARIABLES = ['https_proxy', 'http_proxy', 'grpc_proxy', 'all_proxy'] as const;

/**
 * Proxies that are configured for this process, as "NAME=scheme://host:port" without passwords. The connection to a
 * cluster uses none of these proxies, because evidence binds the two ends of a connection.
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
