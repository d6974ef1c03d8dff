import { RpcError } from './errors.ts';
import type { Upgrade } from './upgrade.ts';

/** A process of this machine that the permissions of a Unix socket admitted. */
export interface LocalPeer {
  readonly kind: 'local';
}

/**
 * For Unix sockets, where file permissions decide who connects. Refuses TCP, so that a wrong listen address cannot open
 * an unauthenticated port.
 */
export const localUpgrade: Upgrade<LocalPeer> = (socket) => {
  if (socket.remotePort === undefined && socket.localPort === undefined)
    return Promise.resolve({ socket, peer: { kind: 'local' } });
  return Promise.reject(new RpcError('rpc-handshake', 'accepting a local connection: it came over TCP'));
};
