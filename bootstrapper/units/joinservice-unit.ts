import { PORTS } from '../../internal/endpoint/index.ts';
import { buildCredentialService, credentialsDirectory } from './service-unit.ts';

/** Unit of the join service and the curator, which run in one process. */
export const JOINSERVICE_UNIT = 'cluster-joinservice.service';
/** System user and group of the join service. */
export const JOINSERVICE_USER = 'cluster-joinservice';

/** Settings in the configuration of the join service, besides the paths of its credentials. */
export interface JoinserviceSettings {
  readonly clusterId: string;
  readonly nodeId: string;
  /** Raw Ed25519 public keys (base64) of the owners that are in this machine's provisioning. */
  readonly ownerKeys: readonly string[];
  readonly listen: { readonly host: string; readonly port: number };
  /** Members of the state etcd, "host:port", the local one first. */
  readonly etcdEndpoints: readonly [string, ...string[]];
  readonly metricsUrl: string;
  /** Directories of bundle blobs that the service may read. */
  readonly stores: readonly string[];
  /** Settings for the admission of machines. */
  readonly join: {
    readonly listen: { readonly host: string; readonly port: number };
    /** Address at which other nodes reach this node, without a port. */
    readonly address: string;
    /** The agent's evidence socket, and the attestation variant of this machine. */
    readonly evidence: { readonly socket: string; readonly variant: string };
    /**
     * The signer's socket, and the socket at which the join service forwards the signer's connections to
     * etcd.
     */
    readonly signer: { readonly socket: string; readonly etcdPipe: string };
  };
}

/**
 * Paths of the agent's files that the join service gets as systemd credentials. The join service's user
 * cannot read the original files.
 */
export interface JoinserviceFiles {
  readonly clusterCaFile: string;
  /** The join service's own TLS certificate and key. The machine's key is not one of these files. */
  readonly certFile: string;
  readonly keyFile: string;
  readonly etcdCaFile: string;
  readonly etcdCertFile: string;
  readonly etcdKeyFile: string;
  /** The CA of the certificate with which this node's API server calls the authorization webhook. */
  readonly apiServerCaFile: string;
}

/** Builds the configuration as JSON. It contains the paths of the credentials inside the unit. */
export function buildJoinserviceConfig(settings: JoinserviceSettings): string {
  const { etcdEndpoints, metricsUrl, ...rest } = settings;
  const at = (name: string): string => `${credentialsDirectory(JOINSERVICE_UNIT)}/${name}`;
  const config = {
    version: 1,
    clusterId: rest.clusterId,
    nodeId: rest.nodeId,
    ownerKeys: rest.ownerKeys,
    listen: rest.listen,
    clusterCaFile: at('cluster-ca.crt'),
    certFile: at('curator.crt'),
    keyFile: at('curator.key'),
    stores: rest.stores,
    join: rest.join,
    authorize: { port: PORTS.authorization, callersCaFile: at('apiserver-ca.crt') },
    etcd: {
      endpoints: etcdEndpoints,
      caFile: at('etcd-ca.crt'),
      certFile: at('etcd.crt'),
      keyFile: at('etcd.key'),
      metricsUrl,
    },
  };
  return `${JSON.stringify(config, undefined, 2)}\n`;
}

/** Builds the unit file. The service can read only its credentials and the blobs of the bundle. */
export function buildJoinserviceUnit(options: {
  readonly command: readonly [string, ...string[]];
  readonly configFile: string;
  readonly stateDir: string;
  readonly stores: readonly string[];
  readonly files: JoinserviceFiles;
  readonly credentialsSha256: string;
}): string {
  const { files, stores, command, credentialsSha256 } = options;
  const blobs = stores.map((store) => `BindReadOnlyPaths=-${store}/blobs\n`).join('');
  return buildCredentialService({
    ...{ unit: JOINSERVICE_UNIT, command, credentialsSha256 },
    description: 'Join service and curator (cluster)',
    after: 'network.target cluster-etcd-state.service',
    user: JOINSERVICE_USER,
    group: JOINSERVICE_USER,
    credentials: {
      'config.json': options.configFile,
      'cluster-ca.crt': files.clusterCaFile,
      'curator.crt': files.certFile,
      'curator.key': files.keyFile,
      'etcd-ca.crt': files.etcdCaFile,
      'etcd.crt': files.etcdCertFile,
      'etcd.key': files.etcdKeyFile,
      'apiserver-ca.crt': files.apiServerCaFile,
    },
    limits: 'LimitNOFILE=65536\n',
    visibility: `TemporaryFileSystem=${options.stateDir}:ro
${blobs}InaccessiblePaths=-/etc/kubernetes -/var/lib/kubelet -/var/lib/containerd
`,
  });
}
