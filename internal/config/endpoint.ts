import { isIP } from 'node:net';

const DNS_NAME = /^(?=.{1,253}$)[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*$/i;

/** Whether a text is a DNS name or an IP address: what a certificate can name. */
export function isHost(text: string): boolean {
  if (isIP(text) !== 0) return true;
  // Digits and dots alone are a mistyped address, not a name.
  return DNS_NAME.test(text) && !/^[0-9.]+$/.test(text);
}

/** The host of what `endpointFrom` reads, IPv6 without its brackets; undefined for anything else. */
export function hostFrom(text: string): string | undefined {
  return endpointFrom(text, 1)
    ?.replace(/:\d+$/, '')
    .replace(/^\[(.*)\]$/, '$1');
}

/**
 * "host", "host:port", "2001:db8::1" or "[2001:db8::1]:port" → "host:port" with IPv6 in brackets; undefined when it is
 * none of them.
 */
export function endpointFrom(text: string, defaultPort: number): string | undefined {
  if (isIP(text) === 6) return `[${text}]:${defaultPort}`;
  const bracketed = /^\[([^\]]+)\](?::([0-9]{1,5}))?$/.exec(text);
  const plain = /^([^:[\]]+)(?::([0-9]{1,5}))?$/.exec(text);
  const [host = '', portText = String(defaultPort)] = (bracketed ?? plain)?.slice(1) ?? [];
  const port = Number(portText);
  if (port < 1 || port > 65_535) return undefined;
  if (bracketed !== null) return isIP(host) === 6 ? `[${host}]:${port}` : undefined;
  return isHost(host) ? `${host}:${port}` : undefined;
}
