/** The join service's two ends towards the signer beside it: what it asks, and the pipe through which the signer reads etcd. */
export { runEtcdPipe } from './etcd-pipe.ts';
export { SignerClient } from './signer-client.ts';
