import {
  buildCredentialService,
  credentialsDirectory,
  ETCD_PROXY_SOCKET,
  JOINSERVICE_USER,
  SIGNER_SOCKET,
} from './service-unit.ts';

/** Unit of the program that holds the CA keys of the cluster (joinservice/signer). */
export const SIGNER_UNIT = 'cluster-signer.service';
/** System user of the signer. */
export const SIGNER_USER = 'cluster-signer';
/** The signer's StateDirectory. It records which owner documents and epochs the signer has seen. */
export const SIGNER_STATE_DIRECTORY = '/var/lib/cluster-signer';
/** Configuration file of the signer. */
export const SIGNER_CONFIG = '/etc/cluster/signer.json';
const COMMAND = [
  '/usr/lib/cluster/node',
  '--optimize-for-size',
  '--no-maglev',
  '--max-semi-space-size=1',
  '--gc-memory-reducer-start-delay-ms=30000',
  '/usr/lib/cluster/signer.mjs',
] as const;

/** Paths of the signer's client certificate for etcd. */
export interface SignerEtcdFiles {
  readonly caFile: string;
  readonly certFile: string;
  readonly keyFile: string;
}

/** Facts that the signer must not read from etcd, because other programs can write to etcd. */
export interface SignerCluster {
  readonly clusterId: string;
  readonly epoch: number;
  /** Documents signed before this time give nobody anything new; absent unless this machine has found an old copy of its disk. */
  readonly signedAfterMs?: number;
  /** Raw Ed25519 public keys (base64) of the first owners, from the provisioning of this machine. */
  readonly ownerKeys: readonly string[];
  /** Id, name and address of this node. */
  readonly own: { readonly nodeId: string; readonly name: string; readonly address: string };
  /** Networks and names that the signer must not sign for any node. */
  readonly networks: {
    readonly serviceSubnet: string;
    readonly podSubnet: string;
    readonly apiServerSans: readonly string[];
    readonly apiEndpoint?: string;
  };
}

/** Builds the configuration as JSON. It contains the paths of the credentials inside the unit. */
export function buildSignerConfig(cluster: SignerCluster): string {
  const keys = credentialsDirectory(SIGNER_UNIT);
  const config = {
    version: 1,
    listen: SIGNER_SOCKET,
    keys,
    memory: SIGNER_STATE_DIRECTORY,
    cluster,
    etcd: {
      endpoint: `unix:${ETCD_PROXY_SOCKET}`,
      caFile: `${keys}/etcd-ca.crt`,
      certFile: `${keys}/etcd.crt`,
      keyFile: `${keys}/etcd.key`,
    },
  };
  return `${JSON.stringify(config, undefined, 2)}\n`;
}

/**
 * Builds the unit file. The signer has no network, and can read no state of the cluster except its
 * credentials. The signer shares the join service's group for the two sockets between them.
 */
export function buildSignerUnit(options: {
  readonly stateDir: string;
  readonly etcd: SignerEtcdFiles;
  /** Path of each existing key, by its name in the key ring. */
  readonly keys: Readonly<Record<string, string>>;
  readonly credentialsSha256: string;
}): string {
  const { stateDir, etcd, keys, credentialsSha256 } = options;
  return buildCredentialService({
    ...{ unit: SIGNER_UNIT, command: COMMAND, group: JOINSERVICE_USER, credentialsSha256 },
    description: 'Signer of certificates (cluster)',
    after: 'local-fs.target',
    user: SIGNER_USER,
    credentials: {
      'config.json': SIGNER_CONFIG,
      'etcd-ca.crt': etcd.caFile,
      'etcd.crt': etcd.certFile,
      'etcd.key': etcd.keyFile,
      ...keys,
    },
    directories: 'StateDirectory=cluster-signer\nStateDirectoryMode=0700\n',
    visibility: `InaccessiblePaths=-${stateDir} -/etc/kubernetes -/var/lib/kubelet -/var/lib/containerd
PrivateNetwork=yes
IPAddressDeny=any
`,
    sandbox: 'RestrictAddressFamilies=\nRestrictAddressFamilies=AF_UNIX\n',
  });
}
