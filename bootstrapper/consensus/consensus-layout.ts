import type { EtcdClientName, EtcdName } from './etcd-instances.ts';

/** Paths of a certificate and its key, PEM. */
export interface KeyPairFiles {
  readonly certFile: string;
  readonly keyFile: string;
}

/**
 * Files for a client of etcd, in a separate directory: kubeadm mounts the directory of each file into the API
 * server.
 */
export interface EtcdClientFiles extends KeyPairFiles {
  /** URL of the local member. */
  readonly endpoint: string;
  readonly caFile: string;
}

/**
 * Paths of a member's files. STATE is the state directory of the agent, NAME is "state" or "kubernetes".
 *
 * ```
 * STATE/consensus/NAME/    readable by root only
 *   clients/ca.{key,crt}   CA of etcd's client and server certificates; a key rotation adds believed.crt
 *   peers/ca.{key,crt}     separate CA of the peer certificates, so that no client of etcd can pose as a peer
 *   users/CLIENT/          ca.crt, client.{key,crt}
 *   formed                 exists from the time when this node first was a member with data
 *   epoch                  epoch of this member's data; if the file does not exist, the epoch is 1
 *   recovery/              for each recovery, the data that etcd had before it
 * STATE/etcd-NAME/         the only part of STATE that etcd can access; owned by etcd's system user
 *   data/                  written by etcd
 *   pki/                   server.*, peer.*, clients-ca.crt, peers-ca.crt
 *   etcd.json              configuration
 * ```
 */
export interface ConsensusLayout {
  /** State directory of the agent, e.g. "/var/lib/cluster". */
  readonly stateDir: string;
  readonly root: string;
  readonly clientsCa: KeyPairFiles;
  readonly peersCa: KeyPairFiles;
  /**
   * CA certificates that are trusted instead of `clientsCa` and `peersCa`. They exist from the first key
   * rotation on.
   */
  readonly clientsTrustBundle: string;
  readonly peersTrustBundle: string;
  /** This file exists if this node has ever been an etcd member with data. */
  readonly memberMarker: string;
  /** File with the epoch of the data, as decimal digits. */
  readonly epochFile: string;
  /** Directory in which each recovery saves the previous data. */
  readonly recovery: string;
  /**
   * Exists from the time when the restored data is complete until the new epoch is written. If it exists, the
   * recovery must be completed.
   */
  readonly recoveryMarker: string;
  /** The copy of the data that a recovery examines. */
  readonly copiedData: string;
  /** Directory into which a recovery writes the restored data. */
  readonly restoredData: string;
  readonly etcdHome: string;
  readonly data: string;
  /** Exists once etcd has written any data. */
  readonly memberData: string;
  readonly server: KeyPairFiles;
  readonly peer: KeyPairFiles;
  readonly trustedClientsCa: string;
  readonly trustedPeersCa: string;
  readonly configFile: string;
  user(name: EtcdClientName): KeyPairFiles & { readonly caFile: string; readonly directory: string };
}

/** The paths of one etcd member. `stateDir`: e.g. "/var/lib/cluster". */
export function consensusLayout(stateDir: string, etcd: EtcdName): ConsensusLayout {
  const root = `${stateDir}/consensus/${etcd}`;
  const etcdHome = `${stateDir}/etcd-${etcd}`;
  const pair = (base: string): KeyPairFiles => ({ certFile: `${base}.crt`, keyFile: `${base}.key` });
  return {
    ...{ stateDir, root },
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
