import { formatEndpoint } from '../../../internal/endpoint/index.ts';
import { SERVICE_SANDBOX } from '../../../internal/platform/index.ts';
import type { EtcdInstance, ListenPorts } from '../etcd-instances.ts';
import type { ConsensusLayout } from '../consensus-layout.ts';

/** The value of kubeadm (cmd/kubeadm/app/phases/etcd/local.go), in nanoseconds as etcd's configuration file has it. */
const PROGRESS_INTERVAL_NS = 5_000_000_000;

/** How this member was created; etcd reads it only while its data directory is empty. */
export type MemberOrigin =
  | { readonly kind: 'first' }
  /** Added to a running cluster as a learner: the peer URL of each member by name, this one included. */
  | { readonly kind: 'added'; readonly members: Readonly<Record<string, string>> };

/** What the configuration file of a member says. */
export interface EtcdSettings {
  /** The member's name: the node's id. */
  readonly nodeId: string;
  /** Address at which other nodes reach this one, without port and brackets. */
  readonly address: string;
  readonly clusterId: string;
  readonly ports: ListenPorts;
  readonly quotaBytes: number;
  readonly origin: MemberOrigin;
}

/** The origin in a configuration file; `first` for an empty or unreadable one. */
export function originFromConfig(text: string): MemberOrigin {
  let config: { readonly 'initial-cluster'?: unknown; readonly 'initial-cluster-state'?: unknown };
  try {
    config = JSON.parse(text) as typeof config;
  } catch {
    return { kind: 'first' };
  }
  const cluster = config['initial-cluster'];
  if (config['initial-cluster-state'] !== 'existing' || typeof cluster !== 'string') return { kind: 'first' };
  const members = cluster.split(',').map((each) => each.split('=', 2) as [string, string]);
  return { kind: 'added', members: Object.fromEntries(members) };
}

/** "https://ADDRESS:PORT"; IPv6 in brackets. */
export function urlOf(address: string, port: number): string {
  return `https://${formatEndpoint(address, port)}`;
}

/** etcd's configuration file. JSON is YAML; unknown names are refused by etcd itself. */
export function buildEtcdConfig(settings: EtcdSettings, layout: ConsensusLayout): string {
  const { nodeId, address, ports, origin } = settings;
  const peerUrl = urlOf(address, ports.peer);
  const members = origin.kind === 'first' ? { [nodeId]: peerUrl } : origin.members;
  const clientUrls = [...new Set([urlOf('127.0.0.1', ports.client), urlOf(address, ports.client)])];
  const config = {
    name: nodeId,
    'data-dir': layout.data,
    'listen-peer-urls': peerUrl,
    'initial-advertise-peer-urls': peerUrl,
    'listen-client-urls': clientUrls.join(','),
    'advertise-client-urls': urlOf(address, ports.client),
    'listen-metrics-urls': `http://127.0.0.1:${ports.metrics}`,
    'initial-cluster': Object.entries(members)
      .map(([name, url]) => `${name}=${url}`)
      .join(','),
    'initial-cluster-state': origin.kind === 'first' ? 'new' : 'existing',
    'initial-cluster-token': settings.clusterId,
    'quota-backend-bytes': settings.quotaBytes,
    // The API server compacts its own history every 5 min; nothing else compacts the records of the cluster.
    'auto-compaction-mode': 'periodic',
    'auto-compaction-retention': '1h',
    'watch-progress-notify-interval': PROGRESS_INTERVAL_NS,
    'strict-reconfig-check': true,
    // The gateway would connect with the server's certificate, and so as the user of its common name.
    'enable-grpc-gateway': false,
    'tls-min-version': 'TLS1.3',
    'client-transport-security': {
      'cert-file': layout.server.certFile,
      'key-file': layout.server.keyFile,
      'trusted-ca-file': layout.trustedClientsCa,
      'client-cert-auth': true,
    },
    'peer-transport-security': {
      'cert-file': layout.peer.certFile,
      'key-file': layout.peer.keyFile,
      'trusted-ca-file': layout.trustedPeersCa,
      'client-cert-auth': true,
    },
  };
  return `${JSON.stringify(config, undefined, 2)}\n`;
}

/**
 * etcd as a unit: its own user, no capability, and of the state directory only its own part. Type=exec although etcd could
 * notify systemd: it does so only with a quorum, and agents of nodes that boot one after the other must not block each
 * other. The agent checks with a read whether etcd serves. StartLimitIntervalSec=0, because systemd would otherwise give up
 * after five failures in 10 s. The unit is not enabled at boot: the agent starts it after it has checked the disk and
 * renewed expired certificates.
 */
export function buildEtcdUnit(options: {
  readonly etcd: Pick<EtcdInstance, 'name' | 'systemUser'>;
  readonly etcdBinary: string;
  readonly stateDir: string;
  readonly layout: ConsensusLayout;
  /** Digest of the trusted CAs after a key rotation. etcd reads them at its start, so a new digest restarts the unit. */
  readonly trustBundleSha256?: string | undefined;
}): string {
  const { trustBundleSha256, etcd } = options;
  return `${trustBundleSha256 === undefined ? '' : `# Trusts: ${trustBundleSha256}\n`}[Unit]
Description=etcd of ${etcd.name === 'state' ? 'the cluster state' : 'Kubernetes'} (cluster)
After=network.target local-fs.target
StartLimitIntervalSec=0

[Service]
Type=exec
User=${etcd.systemUser}
Group=${etcd.systemUser}
ExecStart=${options.etcdBinary} --config-file ${options.layout.configFile}
Restart=always
RestartSec=1
TimeoutStopSec=20
LimitNOFILE=65536
OOMScoreAdjust=-900
IOSchedulingClass=best-effort
IOSchedulingPriority=0
UMask=0077

TemporaryFileSystem=${options.stateDir}:ro
BindPaths=${options.layout.etcdHome}
ReadWritePaths=${options.layout.data}
${SERVICE_SANDBOX}
MemoryDenyWriteExecute=yes
SystemCallFilter=~@privileged @resources
SystemCallErrorNumber=EPERM
`;
}
