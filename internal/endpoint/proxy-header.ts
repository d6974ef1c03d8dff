import { isIPv4, isIPv6 } from 'node:net';
import { ipv6FromHex, ipv6Hex } from './ip-address.ts';

/**
 * The PROXY protocol, version 2 (www.haproxy.org/download/3.0/doc/proxy-protocol.txt, section 2.2): a relay announces
 * the address of its client in front of the client's bytes. Only three forms are written and read: TCP over IPv4, TCP over
 * IPv6, and "unknown" for other clients. Nothing proves the address, so a reader may use it only to divide the relay's own
 * connection quota among the relay's clients.
 */
const SIGNATURE = Buffer.from('0d0a0d0a000d0a515549540a', 'hex');
/** Version 2, command PROXY; TCP over IPv4; 12 bytes of addresses and ports. */
const IPV4 = Buffer.from('2111000c', 'hex');
/** TCP over IPv6; 36 bytes. */
const IPV6 = Buffer.from('21210024', 'hex');
/** Version 2, command LOCAL; unspecified; no bytes. */
const UNKNOWN = Buffer.from('20000000', 'hex');
const FIXED_BYTES = SIGNATURE.length + IPV4.length;
const IPV4_BYTES = FIXED_BYTES + 12;
const IPV6_BYTES = FIXED_BYTES + 36;

/**
 * The result of reading the first bytes of a connection. `clientAddress` is '' if the relay did not send the address.
 */
export type ProxyHeader =
  | { readonly kind: 'none' }
  | { readonly kind: 'incomplete' }
  | { readonly kind: 'header'; readonly clientAddress: string; readonly sizeBytes: number };

/** The header for a client at this address. The destination is left out (zeros). */
export function encodeProxyHeader(clientAddress: string, clientPort: number): Uint8Array {
  if (isIPv6(clientAddress)) {
    const addresses = Buffer.alloc(36);
    addresses.set(Buffer.from(ipv6Hex(clientAddress), 'hex'));
    addresses.writeUInt16BE(clientPort, 32);
    return Buffer.concat([SIGNATURE, IPV6, addresses]);
  }
  if (!isIPv4(clientAddress)) return Buffer.concat([SIGNATURE, UNKNOWN]);
  const addresses = Buffer.alloc(12);
  addresses.set(clientAddress.split('.').map(Number));
  addresses.writeUInt16BE(clientPort, 8);
  return Buffer.concat([SIGNATURE, IPV4, addresses]);
}

/**
 * Reads the header at the beginning of untrusted bytes.
 * @throws SyntaxError for a header that has none of the forms `IPV4`, `IPV6` and `UNKNOWN`
 */
export function readProxyHeader(bytes: Uint8Array): ProxyHeader {
  const given = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const begun = given.subarray(0, SIGNATURE.length);
  if (!begun.equals(SIGNATURE.subarray(0, begun.length)) || begun.length === 0) return { kind: 'none' };
  if (given.length < FIXED_BYTES) return { kind: 'incomplete' };
  const form = given.subarray(SIGNATURE.length, FIXED_BYTES);
  if (form.equals(UNKNOWN)) return { kind: 'header', clientAddress: '', sizeBytes: FIXED_BYTES };
  const sizeBytes = form.equals(IPV4) ? IPV4_BYTES : form.equals(IPV6) ? IPV6_BYTES : undefined;
  if (sizeBytes === undefined) throw new SyntaxError('unsupported PROXY header');
  if (given.length < sizeBytes) return { kind: 'incomplete' };
  const clientAddress =
    sizeBytes === IPV4_BYTES
      ? [...given.subarray(FIXED_BYTES, FIXED_BYTES + 4)].join('.')
      : ipv6FromHex(given.toString('hex', FIXED_BYTES, FIXED_BYTES + 16));
  return { kind: 'header', clientAddress, sizeBytes };
}
