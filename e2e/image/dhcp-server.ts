import { createSocket } from 'node:dgram';
import { once } from 'node:events';

const PORTS = { server: 67, client: 68 };
const BROADCAST = '255.255.255.255';
const REPLY_BYTES = 300;
const MAGIC = Buffer.from([99, 130, 83, 99]);
const OPTIONS_AT = 240;
const OPTION = { mask: 1, router: 3, dns: 6, hostname: 12, lease: 51, type: 53, server: 54, end: 255 };
const OFFERS: Readonly<Record<number, number>> = { 1: 2, 3: 5 }; // DISCOVER → OFFER, REQUEST → ACK
const LEASE_SECONDS = 86_400;

/** A machine that the server knows by the address of its network card. */
export interface DhcpClient {
  /** "52:54:00:…" */
  readonly mac: string;
  readonly address: string;
  readonly hostname: string;
}

/** Serves DHCP (RFC 2131) to these machines on the network of `server`. Others get no answer. */
export async function serveDhcp(server: string, clients: readonly DhcpClient[]): Promise<AsyncDisposable> {
  const socket = createSocket('udp4');
  socket.on('message', (request) => {
    const type = OFFERS[messageTypeOf(request) ?? 0];
    const mac = [...request.subarray(28, 34)].map((byte) => byte.toString(16).padStart(2, '0')).join(':');
    const client = clients.find((each) => each.mac === mac);
    if (type === undefined || client === undefined) return;
    socket.send(replyTo(request, { type, server, client }), PORTS.client, BROADCAST);
  });
  socket.bind(PORTS.server);
  await once(socket, 'listening');
  socket.setBroadcast(true);
  return {
    [Symbol.asyncDispose]: async () => {
      socket.close();
      await once(socket, 'close');
    },
  };
}

function messageTypeOf(request: Buffer): number | undefined {
  for (let at = OPTIONS_AT; at + 2 < request.length; at += 2 + (request[at + 1] ?? 0))
    if (request[at] === OPTION.type) return request[at + 2];
  return undefined;
}

function replyTo(
  request: Buffer,
  { type, server, client }: { readonly type: number; readonly server: string; readonly client: DhcpClient },
): Buffer {
  const lease = Buffer.alloc(4);
  lease.writeUInt32BE(LEASE_SECONDS);
  const reply = Buffer.alloc(REPLY_BYTES);
  request.copy(reply, 0, 0, 44);
  reply.set([2, 1, 6, 0]); // a reply on Ethernet
  reply.set(bytesOf(client.address), 16);
  reply.set(bytesOf(server), 20);
  reply.set(MAGIC, OPTIONS_AT - MAGIC.length);
  const options = [
    [OPTION.type, Buffer.from([type])],
    [OPTION.server, bytesOf(server)],
    [OPTION.lease, lease],
    [OPTION.mask, bytesOf('255.255.255.0')],
    [OPTION.router, bytesOf(server)],
    [OPTION.dns, bytesOf(server)],
    [OPTION.hostname, Buffer.from(client.hostname)],
  ] as const;
  const end = Buffer.from([OPTION.end]);
  const encoded = options.map(([code, value]) => Buffer.concat([Buffer.from([code, value.length]), value]));
  Buffer.concat([...encoded, end]).copy(reply, OPTIONS_AT);
  return reply;
}

function bytesOf(address: string): Buffer {
  return Buffer.from(address.split('.').map(Number));
}
