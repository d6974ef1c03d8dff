import { NODE_MEMORY, SERVICE_SANDBOX } from '../../internal/platform/index.ts';

export const SIGNER_UNIT = 'cluster-signer.service';
export const SIGNER_USER = 'cluster-signer';
/** Where the join service asks. The directory is systemd's and lives as long as the unit. */
export const SIGNER_SOCKET = '/run/cluster-signer/signer.sock';
/** Where the signer keeps what it has seen: its own directory, which systemd makes for its user. */
export const SIGNER_STATE_DIRECTORY = '/var/lib/cluster-signer';
/** Where the join service passes the signer's own TLS on to etcd. */
export const ETCD_PROXY_SOCKET = '/run/cluster-joinservice/etcd.sock';

/** Where systemd shows a unit its credentials (systemd.exec(5), LoadCredential=). */
const CREDENTIALS = `/run/credentials/${SIGNER_UNIT}`;

/** How the signer proves itself to etcd. */
export interface SignerEtcdFiles {
  readonly caFile: string;
  readonly certFile: string;
  readonly keyFile: string;
}

/** What the signer has to know from elsewhere than etcd, which others write. */
export interface SignerCluster {
  readonly clusterId: string;
  readonly epoch: number;
  /** Raw Ed25519, base64: the first owners, as this machine was provisioned with them. */
  readonly ownerKeys: readonly string[];
  /** This node. */
  readonly own: { readonly nodeId: string; readonly name: string; readonly address: string };
  /** Where no node can be. */
  readonly networks: {
    readonly serviceSubnet: string;
    readonly podSubnet: string;
    readonly apiServerSans: readonly string[];
    readonly apiEndpoint?: string;
  };
}

/** The configuration, with each file where the unit sees it. */
export function buildSignerConfig(cluster: SignerCluster, folder: string = CREDENTIALS): string {
  const at = (name: string): string => `${folder}/${name}`;
  const config = {
    version: 1,
    listen: SIGNER_SOCKET,
    keys: folder,
    memory: SIGNER_STATE_DIRECTORY,
    cluster,
    etcd: {
      endpoint: `unix:${ETCD_PROXY_SOCKET}`,
      caFile: at('etcd-ca.crt'),
      certFile: at('etcd.crt'),
      keyFile: at('etcd.key'),
    },
  };
  return `${JSON.stringify(config, undefined, 2)}\n`;
}

/**
 * The signer as a unit: a user of its own without any network, which sees the keys it is handed and nothing else of the
 * cluster. It shares the join service's group for the two sockets between them, and has a directory of its own for what it has
 * seen. A key that is not there yet is left out.
 */
export function buildSignerUnit(options: {
  /** Program and script. */
  readonly command: readonly [string, ...string[]];
  readonly configFile: string;
  readonly stateDir: string;
  /** The join service's group. */
  readonly group: string;
  readonly etcd: SignerEtcdFiles;
  /** Name in the key ring → file; those that are there. */
  readonly keys: Readonly<Record<string, string>>;
  readonly credentialsSha256: string;
}): string {
  const { etcd, keys } = options;
  const credentials: readonly (readonly [string, string])[] = [
    ['config.json', options.configFile],
    ['etcd-ca.crt', etcd.caFile],
    ['etcd.crt', etcd.certFile],
    ['etcd.key', etcd.keyFile],
    ...Object.entries(keys),
  ];
  return `# Credentials: ${options.credentialsSha256}
[Unit]
Description=Signer of certificates (cluster)
After=local-fs.target
StartLimitIntervalSec=0

[Service]
Type=exec
User=${SIGNER_USER}
Group=${options.group}
ExecStart=${options.command.join(' ')} ${CREDENTIALS}/config.json
Restart=always
RestartSec=1
TimeoutStopSec=10
OOMScoreAdjust=-500
UMask=0007
StateDirectory=cluster-signer
StateDirectoryMode=0700
RuntimeDirectory=cluster-signer
RuntimeDirectoryMode=0750
${credentials.map(([name, path]) => `LoadCredential=${name}:${path}`).join('\n')}

InaccessiblePaths=-${options.stateDir} -/etc/kubernetes -/var/lib/kubelet -/var/lib/containerd
PrivateNetwork=yes
IPAddressDeny=any
${SERVICE_SANDBOX}
${NODE_MEMORY}
RestrictAddressFamilies=
RestrictAddressFamilies=AF_UNIX
SystemCallFilter=~@privileged
SystemCallErrorNumber=EPERM
`;
}
