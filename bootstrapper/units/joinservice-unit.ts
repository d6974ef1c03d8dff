import { EVIDENCE_SOCKET } from '../../internal/atls/evidencesocket/index.ts';
import { listenHost, PORTS } from '../../internal/endpoint/index.ts';
import {
  buildCredentialService,
  credentialsDirectory,
  ETCD_PROXY_SOCKET,
  JOINSERVICE_USER,
  SIGNER_SOCKET,
} from './service-unit.ts';

/** Unit of the join service and the curator, which run in one process. */
export const JOINSERVICE_UNIT = 'cluster-joinservice.service';
/** Configuration file of the join service. */
export const JOINSERVICE_CONFIG = '/etc/cluster/joinservice.json';
const COMMAND = [
  '/usr/lib/cluster/node',
  '--optimize-for-size',
  '--no-maglev',
  '--max-semi-space-size=1',
  '--heap-growing-percent=40',
  '--gc-memory-reducer-start-delay-ms=30000',
  '/usr/lib/cluster/joinservice.mjs',
] as const;

/** Settings in the configuration of the join service, besides the paths of its credentials. */
export interface JoinserviceSettings {
  readonly clusterId: string;
  readonly nodeId: string;
  /** Address at which other nodes reach this node, without a port. */
  readonly address: string;
  /** Raw Ed25519 public keys (base64) of the owners that are in this machine's provisioning. */
  readonly ownerKeys: readonly string[];
  /** The local member of the state etcd, "host:port". */
  readonly etcdEndpoint: string;
  readonly metricsUrl: string;
  /** Directories of bundle blobs that the service may read. */
  readonly stores: readonly string[];
  /** The attestation variant of this machine. */
  readonly variant: string;
}

/**
 * Paths of the agent's files that the join service gets as systemd credentials, by the credentials' names. The
 * join service's user cannot read the original files.
 */
export interface JoinserviceCredentials {
  readonly 'cluster-ca.crt': string;
  /** The join service's own TLS certificate and key. The machine's key is not one of these files. */
  readonly 'curator.crt': string;
  readonly 'curator.key': string;
  readonly 'etcd-ca.crt': string;
  readonly 'etcd.crt': string;
  readonly 'etcd.key': string;
  /** The CA of the certificate with which this node's API server calls the authorization webhook. */
  readonly 'apiserver-ca.crt': string;
}

/** Builds the configuration as JSON. It contains the paths of the credentials inside the unit. */
export function buildJoinserviceConfig(settings: JoinserviceSettings): string {
  const { clusterId, nodeId, ownerKeys, stores, address, variant, etcdEndpoint, metricsUrl } = settings;
  const at = (name: keyof JoinserviceCredentials): string =>
    `${credentialsDirectory(JOINSERVICE_UNIT)}/${name}`;
  const config = {
    version: 1,
    ...{ clusterId, nodeId, ownerKeys },
    listen: { host: listenHost(address), port: PORTS.curator },
    clusterCaFile: at('cluster-ca.crt'),
    certFile: at('curator.crt'),
    keyFile: at('curator.key'),
    stores,
    join: {
      listen: { host: listenHost(address), port: PORTS.join },
      address,
      evidence: { socket: EVIDENCE_SOCKET, variant },
      signer: { socket: SIGNER_SOCKET, etcdPipe: ETCD_PROXY_SOCKET },
    },
    authorize: { port: PORTS.authorization, callersCaFile: at('apiserver-ca.crt') },
    etcd: {
      endpoints: [etcdEndpoint],
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
  readonly stateDir: string;
  readonly stores: readonly string[];
  readonly credentials: JoinserviceCredentials;
  readonly credentialsSha256: string;
}): string {
  const { stateDir, stores, credentials, credentialsSha256 } = options;
  const blobs = stores.map((store) => `BindReadOnlyPaths=-${store}/blobs\n`).join('');
  return buildCredentialService({
    ...{ unit: JOINSERVICE_UNIT, command: COMMAND, credentialsSha256 },
    description: 'Join service and curator (cluster)',
    after: 'network.target cluster-etcd-state.service',
    user: JOINSERVICE_USER,
    group: JOINSERVICE_USER,
    credentials: { 'config.json': JOINSERVICE_CONFIG, ...credentials },
    limits: 'LimitNOFILE=65536\n',
    visibility: `TemporaryFileSystem=${stateDir}:ro
${blobs}InaccessiblePaths=-/etc/kubernetes -/var/lib/kubelet -/var/lib/containerd
`,
  });
}
