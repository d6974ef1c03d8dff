import { createClient, type Client, type LocalPeer, type RpcChannel } from '../../internal/rpc/index.ts';
import { Signer } from '../signerproto/gen/signer_pb.js';

/** A client of the signer that can send any request. */
export function createSignerClient(channel: RpcChannel<LocalPeer>): Client<typeof Signer> {
  return createClient(Signer, channel);
}
