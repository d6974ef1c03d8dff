import type { EtcdClientName, EtcdName } from './etcd-instances.ts';

/** Paths of a certificate and its key, PEM. */
export interface KeyPairFiles {
  readonly certFile: string;
  readonly keyFile: string;
}

/** What a client of etcd needs, in a directory of its own: kubeadm mounts the directory of each file into the API server. */
export interface EtcdClientFiles extends KeyPairFiles {
  /** URL of the local member. */
  readonly endpoint: string;
  readonly caFile: string;
}

/**
 * Where a member keeps its files. STATE is the state directory of the agent, NAME is "state" or "kubernetes".
 *
 * ```
 * STATE/consensus/NAME/    root only
 *   clients/ca.{key,crt}   signs etcd's client and server certificates; beside it believed.crt after a key rotation
 *   peers/ca.{key,crt}     signs peer certificates only: a client certificate must never be accepted from a peer
 *   users/CLIENT/          ca.crt, client.{key,crt}
 *   formed                 exists once this node has been a member with data
 *   epoch                  epoch of that data; absent: 1
 *   recovery/              the data of etcd before each recovery
 * STATE/etcd-NAME/         all that etcd sees of STATE; owned by its system user
 *   data/                  written by etcd
 *   pki/                   server.*, peer.*, clients-ca.crt, peers-ca.crt
 *   etcd.json              configuration
 * ```
 */
export interface ConsensusLayout {
  readonly root: string;
  readonly clientsCa: KeyPairFiles;
  readonly peersCa: KeyPairFiles;
  /** CA certificates to trust in place of `clientsCa` and `peersCa`; they exist from the first key rotation on. */
  readonly clientsTrustBundle: string;
  readonly peersTrustBundle: string;
  /** Exists once this node has been a member with data. */
  readonly memberMarker: string;
  /** The epoch of the data as decimal digits. */
  readonly epochFile: string;
  /** Directory of the data before each recovery. */
  readonly recovery: string;
  /** Exists from when the restored data is complete until the new epoch is written: such a recovery must be completed. */
  readonly recoveryMarker: string;
  /** A copy of the data that a recovery examines. */
  readonly copiedData: string;
  /** Where a recovery writes the restored data. */
  readonly restoredData: string;
  readonly etcdHome: string;
  readonly data: string;
  /** Exists once etcd has written anything. */
  readonly memberData: string;
  readonly server: KeyPairFiles;
  readonly peer: KeyPairFiles;
  readonly trustedClientsCa: string;
  readonly trustedPeersCa: string;
  readonly configFile: string;
  user(name: EtcdClientName): KeyPairFiles & { readonly caFile: string; readonly directory: string };
}

/** The paths of one etcd member. `stateDir`: "/var/lib/cluster". */
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
      const directory = `${root}/users/${name}`;
      return { directory, caFile: `${directory}/ca.crt`, ...pair(`${directory}/client`) };
    },
  };
}
