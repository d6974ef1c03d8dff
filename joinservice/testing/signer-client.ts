import { createClient, type Client, type LocalPeer, type RpcChannel } from '../../internal/rpc/index.ts';
import { Signer } from '../signerproto/gen/signer_pb.js';

/** The signer, as whoever has its socket may ask it: with anything. */
export function createSignerClient(channel: RpcChannel<LocalPeer>): Client<typeof Signer> {
  return createClient(Signer, channel);
}
