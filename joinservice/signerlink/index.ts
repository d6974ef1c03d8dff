/**
 * The connection between the join service and the signer on the same machine: a client of the signer, and the proxy
 * through which the signer reads etcd.
 */
export { runEtcdPipe } from './etcd-pipe.ts';
export { SignerClient } from './signer-client.ts';
