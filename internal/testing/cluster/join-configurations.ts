import { findFreePort } from '../network/free-port.ts';

/**
 * The configurations that an agent writes for the join service and the signer, with files and sockets in
 * one directory and ports on the loopback.
 */
export async function joinConfigurations(of: {
  /** The path of a file or socket, by name. */
  readonly at: (name: string) => string;
  readonly clusterId: string;
  readonly nodeId: string;
  readonly joinPort: number;
  /** Raw Ed25519 public key of the owner whose signatures the signer accepts, base64. */
  readonly ownerKey: string;
  readonly etcdAt: { readonly endpoint: string; readonly metricsUrl: string };
}) {
  const { at, clusterId, nodeId, joinPort, etcdAt } = of;
  const etcdOf = (name: 'joinservice' | 'signer') => ({
    caFile: at('etcd-ca.crt'),
    certFile: at(`etcd-${name}.crt`),
    keyFile: at(`etcd-${name}.key`),
  });
  const joinservice = {
    version: 1,
    clusterId,
    nodeId,
    listen: { host: '127.0.0.1', port: await findFreePort() },
    clusterCaFile: at('cluster-ca.crt'),
    certFile: at('node.crt'),
    keyFile: at('node.key'),
    metricsPort: await findFreePort(),
    stores: [],
    join: {
      listen: { host: '127.0.0.1', port: joinPort },
      address: '127.0.0.1',
      evidence: { socket: at('evidence.sock'), variant: 'machine-key' },
      signer: { socket: at('signer.sock'), etcdPipe: at('etcd.sock') },
    },
    etcd: {
      endpoints: [etcdAt.endpoint],
      ...etcdOf('joinservice'),
      metricsUrl: etcdAt.metricsUrl,
    },
  };
  const signer = {
    version: 1,
    listen: at('signer-own.sock'),
    keys: at('.'),
    memory: at('memory'),
    cluster: {
      ...{ clusterId, epoch: 1, ownerKeys: [of.ownerKey] },
      own: { nodeId, name: 'first', address: '127.0.0.1' },
      networks: { serviceSubnet: '10.96.0.0/12', podSubnet: '10.244.0.0/16', apiServerSans: [] },
    },
    etcd: { endpoint: `unix:${at('etcd.sock')}`, ...etcdOf('signer') },
  };
  return { joinservice, signer };
}
