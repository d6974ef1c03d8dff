import { PORTS } from '../../internal/endpoint/index.ts';
import { NODE_MEMORY, SERVICE_SANDBOX } from '../../internal/platform/index.ts';
export const JOINSERVICE_UNIT = 'cluster-joinservice.service';
export const JOINSERVICE_USER = 'cluster-joinservice';

/** Where systemd shows a unit its credentials (systemd.exec(5), LoadCredential=). */
const CREDENTIALS = `/run/credentials/${JOINSERVICE_UNIT}`;

export interface JoinserviceSettings {
  readonly clusterId: string;
  readonly nodeId: string;
  /** Raw Ed25519 keys of the owners that this machine was provisioned with, base64. */
  readonly ownerKeys: readonly string[];
  readonly listen: { readonly host: string; readonly port: number };
  /** Members of the state etcd, "host:port", the local one first. */
  readonly etcdEndpoints: readonly [string, ...string[]];
  readonly metricsUrl: string;
  /** Stores of the bundle's blobs, which the service may read. */
  readonly stores: readonly string[];
  /** How machines are let in. */
  readonly join: {
    readonly listen: { readonly host: string; readonly port: number };
    /** Where other nodes reach this one; no port. */
    readonly address: string;
    /** The agent's socket, and the kind of evidence that this machine has. */
    readonly evidence: { readonly socket: string; readonly variant: string };
    /** The signer's socket, and the one at which the signer finds its way to etcd. */
    readonly signer: { readonly socket: string; readonly etcdPipe: string };
  };
}

/** The files that the join service needs; the agent's own, which its user cannot read where they are. */
export interface JoinserviceFiles {
  readonly clusterCaFile: string;
  /** Its own, for TLS; the machine's key is not among them. */
  readonly certFile: string;
  readonly keyFile: string;
  readonly etcdCaFile: string;
  readonly etcdCertFile: string;
  readonly etcdKeyFile: string;
  /** Who signed the certificate with which the API server of this node asks. */
  readonly apiServerCaFile: string;
}

/** The configuration, with each file where the unit sees it. */
export function buildJoinserviceConfig(settings: JoinserviceSettings, folder: string = CREDENTIALS): string {
  const at = (name: string): string => `${folder}/${name}`;
  const config = {
    version: 1,
    clusterId: settings.clusterId,
    nodeId: settings.nodeId,
    ownerKeys: settings.ownerKeys,
    listen: settings.listen,
    clusterCaFile: at('cluster-ca.crt'),
    certFile: at('curator.crt'),
    keyFile: at('curator.key'),
    stores: settings.stores,
    join: settings.join,
    authorize: { port: PORTS.authorization, callersCaFile: at('apiserver-ca.crt') },
    etcd: {
      endpoints: settings.etcdEndpoints,
      caFile: at('etcd-ca.crt'),
      certFile: at('etcd.crt'),
      keyFile: at('etcd.key'),
      metricsUrl: settings.metricsUrl,
    },
  };
  return `${JSON.stringify(config, undefined, 2)}\n`;
}

/**
 * The join service as a unit: a user of its own with no capability, which sees nothing of the cluster's state but the
 * credentials it is handed and the bundle's blobs. The fingerprint of those is part of the unit, so that new ones restart it.
 */
export function buildJoinserviceUnit(options: {
  /** Program and script. */
  readonly command: readonly [string, ...string[]];
  readonly configFile: string;
  readonly stateDir: string;
  readonly stores: readonly string[];
  readonly files: JoinserviceFiles;
  readonly credentialsSha256: string;
}): string {
  const { files, stores } = options;
  const credentials: readonly (readonly [string, string])[] = [
    ['config.json', options.configFile],
    ['cluster-ca.crt', files.clusterCaFile],
    ['curator.crt', files.certFile],
    ['curator.key', files.keyFile],
    ['etcd-ca.crt', files.etcdCaFile],
    ['etcd.crt', files.etcdCertFile],
    ['etcd.key', files.etcdKeyFile],
    ['apiserver-ca.crt', files.apiServerCaFile],
  ];
  return `# Credentials: ${options.credentialsSha256}
[Unit]
Description=Join service and curator (cluster)
After=network.target cluster-etcd-state.service
StartLimitIntervalSec=0

[Service]
Type=exec
User=${JOINSERVICE_USER}
Group=${JOINSERVICE_USER}
ExecStart=${options.command.join(' ')} ${CREDENTIALS}/config.json
Restart=always
RestartSec=1
TimeoutStopSec=10
LimitNOFILE=65536
OOMScoreAdjust=-500
UMask=0007
RuntimeDirectory=cluster-joinservice
RuntimeDirectoryMode=0750
${credentials.map(([name, path]) => `LoadCredential=${name}:${path}`).join('\n')}

TemporaryFileSystem=${options.stateDir}:ro
${stores.map((store) => `BindReadOnlyPaths=-${store}/blobs\n`).join('')}InaccessiblePaths=-/etc/kubernetes -/var/lib/kubelet -/var/lib/containerd
${SERVICE_SANDBOX}
${NODE_MEMORY}
SystemCallFilter=~@privileged
SystemCallErrorNumber=EPERM
`;
}
