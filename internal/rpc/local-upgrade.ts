import { RpcError } from './errors.ts';
import type { Upgrade } from './upgrade.ts';

/** Somebody on this machine whom the permissions of a Unix socket let in. */
export interface LocalPeer {
  readonly kind: 'local';
}

/**
 * For Unix sockets only: who may connect was decided by the file system. A TCP connection is refused, so that a wrong
 * address cannot turn this into a door without a lock.
 */
export const localUpgrade: Upgrade<LocalPeer> = (socket) => {
  if (socket.remotePort === undefined && socket.localPort === undefined)
    return Promise.resolve({ socket, peer: { kind: 'local' } });
  return Promise.reject(new RpcError('rpc-handshake', 'taking a local connection: it came over the network'));
};
