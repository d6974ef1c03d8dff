import { buildCredentialService, credentialsDirectory } from './service-unit.ts';

/** Unit of the program that holds the CA keys of the cluster (joinservice/signer). */
export const SIGNER_UNIT = 'cluster-signer.service';
/** System user of the signer. */
export const SIGNER_USER = 'cluster-signer';
/** Socket at which the join service calls the signer. systemd deletes its directory when the unit stops. */
export const SIGNER_SOCKET = '/run/cluster-signer/signer.sock';
/** The signer's StateDirectory. It records which owner documents and epochs the signer has seen. */
export const SIGNER_STATE_DIRECTORY = '/var/lib/cluster-signer';
/**
 * Socket at which the join service forwards the signer's TLS connections to etcd. The TLS session is between
 * signer and etcd.
 */
export const ETCD_PROXY_SOCKET = '/run/cluster-joinservice/etcd.sock';

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
  readonly command: readonly [string, ...string[]];
  readonly configFile: string;
  readonly stateDir: string;
  /** The group of the join service. */
  readonly group: string;
  readonly etcd: SignerEtcdFiles;
  /** Path of each existing key, by its name in the key ring. */
  readonly keys: Readonly<Record<string, string>>;
  readonly credentialsSha256: string;
}): string {
  const { command, configFile, stateDir, group, etcd, keys, credentialsSha256 } = options;
  return buildCredentialService({
    ...{ unit: SIGNER_UNIT, command, group, credentialsSha256 },
    description: 'Signer of certificates (cluster)',
    after: 'local-fs.target',
    user: SIGNER_USER,
    credentials: {
      'config.json': configFile,
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
