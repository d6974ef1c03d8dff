import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';

/** Two ends of one real TCP connection over the loopback; both are destroyed when the pair is disposed. */
export interface TcpPair extends Disposable {
  readonly client: Socket;
  readonly server: Socket;
}

/** `from` is the client's address; all of 127.0.0.0/8 is available. */
export async function createTcpPair(from = '127.0.0.1'): Promise<TcpPair> {
  const listener = createServer({ noDelay: true });
  listener.listen(0, '127.0.0.1');
  await once(listener, 'listening');
  const accepted = once(listener, 'connection') as Promise<[Socket]>;
  const client = connect({
    port: (listener.address() as AddressInfo).port,
    host: '127.0.0.1',
    localAddress: from,
    noDelay: true,
  });
  const [server] = await accepted;
  await (client.connecting ? once(client, 'connect') : undefined);
  listener.close();
  // A test may reset one end; the error on the other end must not end the test program.
  for (const socket of [client, server]) socket.on('error', () => undefined);
  return {
    client,
    server,
    [Symbol.dispose]: () => {
      client.destroy();
      server.destroy();
    },
  };
}
