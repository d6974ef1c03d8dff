import type { EtcdClientName, EtcdName } from './etcd-instances.ts';

/** A key and its certificate. */
export interface KeyPairFiles {
  readonly certFile: string;
  readonly keyFile: string;
}

/** What a client of etcd needs, in a directory of its own: kubeadm shows the API server the whole directory of each file. */
export interface EtcdClientFiles extends KeyPairFiles {
  /** URL of the local member. */
  readonly endpoint: string;
  readonly caFile: string;
}

/**
 * Where a member keeps its files; NAME is that of its etcd.
 *
 * ```
 * STATE/consensus/NAME/    root only
 *   clients/ca.{key,crt}   signs etcd's client and server certificates; beside it believed.crt, once keys were replaced
 *   peers/ca.{key,crt}     signs peer certificates and nothing else: a client must never pass for a peer
 *   users/CLIENT/          ca.crt, client.{key,crt}
 *   formed                 this node has been a member with data
 *   epoch                  of that data; absent: 1
 *   recovery/              what etcd had before each recovery
 * STATE/etcd-NAME/         all that etcd sees of STATE; owned by its user
 *   data/                  etcd's own
 *   pki/                   server.*, peer.*, clients-ca.crt, peers-ca.crt
 *   etcd.json              configuration
 * ```
 */
export interface ConsensusLayout {
  readonly root: string;
  readonly clientsCa: KeyPairFiles;
  readonly peersCa: KeyPairFiles;
  /** Whom to believe where that is not who signs; there since the first rotation of keys. */
  readonly clientsTrustBundle: string;
  readonly peersTrustBundle: string;
  readonly memberMarker: string;
  /** The epoch of the data here, in digits; 1 where nobody has said. */
  readonly epochFile: string;
  /** What etcd had before each recovery. */
  readonly recovery: string;
  /** There from when the new data is complete until the new epoch is: what is begun must be finished. */
  readonly recoveryMarker: string;
  /** A copy of the data, from which a recovery finds out what is in it. */
  readonly copiedData: string;
  /** Where a recovery makes the new data. */
  readonly restoredData: string;
  readonly etcdHome: string;
  readonly data: string;
  /** Exists as soon as etcd has written anything. */
  readonly memberData: string;
  readonly server: KeyPairFiles;
  readonly peer: KeyPairFiles;
  readonly trustedClientsCa: string;
  readonly trustedPeersCa: string;
  readonly configFile: string;
  user(name: EtcdClientName): KeyPairFiles & { readonly caFile: string; readonly folder: string };
}

export function consensusLayout(stateDir: string, etcd: EtcdName): ConsensusLayout {
  const root = `${stateDir}/consensus/${etcd}`;
  const etcdHome = `${stateDir}/etcd-${etcd}`;
  const pair = (base: string): KeyPairFiles => ({ certFile: `${base}.crt`, keyFile: `${base}.key` });
  return {
    root,
    clientsCa: pair(`${root}/clients/ca`),
    peersCa: pair(`${root}/peers/ca`),
    clientsTrustBundle: `${root}/clients/believed.crt`,
    peersTrustBundle: `${root}/peers/believed.crt`,
    memberMarker: `${root}/formed`,
    epochFile: `${root}/epoch`,
    recovery: `${root}/recovery`,
    recoveryMarker: `${root}/recovering`,
    copiedData: `${etcdHome}/copied`,
    restoredData: `${etcdHome}/restored`,
    etcdHome,
    data: `${etcdHome}/data`,
    memberData: `${etcdHome}/data/member`,
    server: pair(`${etcdHome}/pki/server`),
    peer: pair(`${etcdHome}/pki/peer`),
    trustedClientsCa: `${etcdHome}/pki/clients-ca.crt`,
    trustedPeersCa: `${etcdHome}/pki/peers-ca.crt`,
    configFile: `${etcdHome}/etcd.json`,
    user: (name) => {
      const folder = `${root}/users/${name}`;
      return { folder, caFile: `${folder}/ca.crt`, ...pair(`${folder}/client`) };
    },
  };
}
