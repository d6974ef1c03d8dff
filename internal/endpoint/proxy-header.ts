import { isIPv4 } from 'node:net';

/**
 * The PROXY protocol, version 2 (www.haproxy.org/download/3.0/doc/proxy-protocol.txt, section 2.2): a relay announces
 * the address of its client in front of the client's bytes. Only two forms are written and read: TCP over IPv4, and
 * "unknown" for other clients. Nothing proves the address, so a reader may use it only to divide the relay's own
 * connection quota among the relay's clients.
 */
const SIGNATURE = Buffer.from('0d0a0d0a000d0a515549540a', 'hex');
/** Version 2, command PROXY; TCP over IPv4; 12 bytes of addresses and ports. */
const IPV4 = Buffer.from('2111000c', 'hex');
/** Version 2, command LOCAL; unspecified; no bytes. */
const UNKNOWN = Buffer.from('20000000', 'hex');
const FIXED_BYTES = SIGNATURE.length + IPV4.length;
const IPV4_BYTES = FIXED_BYTES + 12;

/**
 * The result of reading the first bytes of a connection. `clientAddress` is '' if the relay did not send the address.
 */
export type ProxyHeader =
  | { readonly kind: 'none' }
  | { readonly kind: 'incomplete' }
  | { readonly kind: 'header'; readonly clientAddress: string; readonly sizeBytes: number };

/** The header for a client at this address. The destination is left out (zeros). */
export function encodeProxyHeader(clientAddress: string, clientPort: number): Uint8Array {
  if (!isIPv4(clientAddress)) return Buffer.concat([SIGNATURE, UNKNOWN]);
  const addresses = Buffer.alloc(12);
  addresses.set(clientAddress.split('.').map(Number));
  addresses.writeUInt16BE(clientPort, 8);
  return Buffer.concat([SIGNATURE, IPV4, addresses]);
}

/**
 * Reads the header at the beginning of untrusted bytes.
 * @throws SyntaxError for a header that has neither of the two forms `IPV4` and `UNKNOWN`
 */
export function readProxyHeader(bytes: Uint8Array): ProxyHeader {
  const given = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const begun = given.subarray(0, SIGNATURE.length);
  if (!begun.equals(SIGNATURE.subarray(0, begun.length)) || begun.length === 0) return { kind: 'none' };
  if (given.length < FIXED_BYTES) return { kind: 'incomplete' };
  const form = given.subarray(SIGNATURE.length, FIXED_BYTES);
  if (form.equals(UNKNOWN)) return { kind: 'header', clientAddress: '', sizeBytes: FIXED_BYTES };
  if (!form.equals(IPV4)) throw new SyntaxError('unsupported PROXY header');
  if (given.length < IPV4_BYTES) return { kind: 'incomplete' };
  const clientAddress = [...given.subarray(FIXED_BYTES, FIXED_BYTES + 4)].join('.');
  return { kind: 'header', clientAddress, sizeBytes: IPV4_BYTES };
}
