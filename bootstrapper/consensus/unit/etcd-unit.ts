import { formatEndpoint } from '../../../internal/endpoint/index.ts';
import { SERVICE_SANDBOX } from '../../../internal/platform/index.ts';
import type { EtcdInstance, ListenPorts } from '../etcd-instances.ts';
import type { ConsensusLayout } from '../consensus-layout.ts';

/**
 * The value that kubeadm uses (cmd/kubeadm/app/phases/etcd/local.go), in nanoseconds as in etcd's
 * configuration file.
 */
const PROGRESS_INTERVAL_NS = 5_000_000_000;

/**
 * As kubeadm sets it. A member that has data compares its hash with those of its peers before it serves anybody. If the content
 * differs, it ends: a disk that has changed what it stored does harm only until the next start. etcd does not know then which
 * of the two members is right, so also a good member does not start beside one with other content
 * (docs/recovery.md, "A member of etcd has other content"). Peers that do not answer are left out.
 */
const FEATURE_GATES = 'InitialCorruptCheck=true';

/** How this member was created. etcd reads this setting only while its data directory is empty. */
export type MemberOrigin =
  | { readonly kind: 'first' }
  /**
   * The member was added to a running cluster as a learner. `members`: the peer URL of each member by name,
   * including this member.
   */
  | { readonly kind: 'added'; readonly members: Readonly<Record<string, string>> };

/** The settings of one member that its configuration file and its unit contain. */
export interface EtcdSettings {
  readonly etcd: EtcdInstance;
  /** The member's name, which is the id of its node. */
  readonly nodeId: string;
  /** Address at which other nodes reach this one, without port and brackets. */
  readonly address: string;
  readonly clusterId: string;
  readonly ports: ListenPorts;
  readonly quotaBytes: number;
  readonly etcdBinary: string;
  /** Paths of the member's files. */
  readonly layout: ConsensusLayout;
}

/** Reads the origin from a configuration file; returns `first` for an empty or unreadable file. */
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

/** "https://ADDRESS:PORT". An IPv6 address is put in brackets. */
export function urlOf(address: string, port: number): string {
  return `https://${formatEndpoint(address, port)}`;
}

/** Builds etcd's configuration file. JSON is valid YAML. etcd itself refuses unknown names. */
export function buildEtcdConfig(settings: EtcdSettings, origin: MemberOrigin): string {
  const { nodeId, address, ports, layout } = settings;
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
    // The API server compacts the history of its own keys every 5 min. Without this setting, nothing would
    // compact the records of the cluster.
    'auto-compaction-mode': 'periodic',
    'auto-compaction-retention': '1h',
    'watch-progress-notify-interval': PROGRESS_INTERVAL_NS,
    'strict-reconfig-check': true,
    'feature-gates': FEATURE_GATES,
    // The gateway would connect with the server's certificate, and so would act as the user named in that
    // certificate.
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
 * The systemd unit of etcd. It has a separate user, no capabilities, and access only to its own part of the
 * state directory. Type=exec although etcd can notify systemd: etcd notifies only with a quorum, and agents
 * of nodes that boot one after the other must not block each other. The agent checks with a read whether etcd
 * serves. StartLimitIntervalSec=0, because systemd would otherwise give up after five failures in 10 s. The
 * unit is not enabled at boot: the agent starts it after it has checked the disk and renewed expired
 * certificates.
 * @param trustBundleSha256 digest of the trusted CAs after a key rotation. etcd reads them only when it
 * starts, so a new digest restarts the unit.
 */
export function buildEtcdUnit(
  { etcd, etcdBinary, layout }: Pick<EtcdSettings, 'etcd' | 'etcdBinary' | 'layout'>,
  trustBundleSha256?: string,
): string {
  return `${trustBundleSha256 === undefined ? '' : `# Trusts: ${trustBundleSha256}\n`}[Unit]
Description=etcd of ${etcd.name === 'state' ? 'the cluster state' : 'Kubernetes'} (cluster)
After=network.target local-fs.target
StartLimitIntervalSec=0

[Service]
Type=exec
User=${etcd.systemUser}
Group=${etcd.systemUser}
ExecStart=${etcdBinary} --config-file ${layout.configFile}
Restart=always
RestartSec=1
TimeoutStopSec=20
LimitNOFILE=65536
OOMScoreAdjust=-900
IOSchedulingClass=best-effort
IOSchedulingPriority=0
UMask=0077

TemporaryFileSystem=${layout.stateDir}:ro
BindPaths=${layout.etcdHome}
ReadWritePaths=${layout.data}
${SERVICE_SANDBOX}
MemoryDenyWriteExecute=yes
SystemCallFilter=~@privileged @resources
SystemCallErrorNumber=EPERM
`;
}
