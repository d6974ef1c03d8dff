/** How the join service reaches the signer beside it: its client, and the proxy through which the signer reads etcd. */
export { runEtcdPipe } from './etcd-pipe.ts';
export { SignerClient } from './signer-client.ts';
