import { buildCredentialService, credentialsDirectory } from './service-unit.ts';

/** The program that holds the CA keys of the cluster (joinservice/signer). */
export const SIGNER_UNIT = 'cluster-signer.service';
/** Its system user. */
export const SIGNER_USER = 'cluster-signer';
/** Where the join service calls the signer. systemd deletes the directory when the unit stops. */
export const SIGNER_SOCKET = '/run/cluster-signer/signer.sock';
/** The signer's StateDirectory: what it has seen of owner documents and epochs. */
export const SIGNER_STATE_DIRECTORY = '/var/lib/cluster-signer';
/** Where the join service forwards the signer's own TLS connections to etcd. */
export const ETCD_PROXY_SOCKET = '/run/cluster-joinservice/etcd.sock';

/** Paths of the signer's client certificate for etcd. */
export interface SignerEtcdFiles {
  readonly caFile: string;
  readonly certFile: string;
  readonly keyFile: string;
}

/** What the signer must not read from etcd, where other programs write. */
export interface SignerCluster {
  readonly clusterId: string;
  readonly epoch: number;
  /** Raw Ed25519 public keys, base64: the first owners, from the provisioning of this machine. */
  readonly ownerKeys: readonly string[];
  /** This node. */
  readonly own: { readonly nodeId: string; readonly name: string; readonly address: string };
  /** Networks and names that no node can have. */
  readonly networks: {
    readonly serviceSubnet: string;
    readonly podSubnet: string;
    readonly apiServerSans: readonly string[];
    readonly apiEndpoint?: string;
  };
}

/** The configuration as JSON. Its paths are those of the credentials inside the unit. */
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
 * The unit file: no network, and of the state of the cluster only the credentials. The signer shares the group of the join
 * service for the two sockets between them.
 */
export function buildSignerUnit(options: {
  readonly command: readonly [string, ...string[]];
  readonly configFile: string;
  readonly stateDir: string;
  /** The group of the join service. */
  readonly group: string;
  readonly etcd: SignerEtcdFiles;
  /** Name in the key ring and path of each key that exists. */
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
