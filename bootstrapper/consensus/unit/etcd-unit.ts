import { formatEndpoint } from '../../../internal/endpoint/index.ts';
import { SERVICE_SANDBOX } from '../../../internal/platform/index.ts';
import type { EtcdInstance, ListenPorts } from '../etcd-instances.ts';
import type { ConsensusLayout } from '../consensus-layout.ts';

/** As kubeadm's own etcd has it (cmd/kubeadm/app/phases/etcd/local.go); etcd's configuration file takes nanoseconds. */
const PROGRESS_INTERVAL_NS = 5_000_000_000;

/** How this member came to be; etcd reads it only while its data directory is empty. */
export type MemberOrigin =
  | { readonly kind: 'first' }
  /** Added to a running cluster as a learner: all members by name with their peer URL, this one included. */
  | { readonly kind: 'added'; readonly members: Readonly<Record<string, string>> };

export interface EtcdSettings {
  /** The member's name: the node's id. */
  readonly nodeId: string;
  /** Other nodes reach this one here; no port, no brackets. */
  readonly address: string;
  readonly clusterId: string;
  readonly ports: ListenPorts;
  readonly quotaBytes: number;
  readonly origin: MemberOrigin;
}

/** How the member that this configuration is of came to be; the first where nothing is known. */
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
    // The API server compacts its own history every five minutes; nobody else compacts the cluster's records.
    'auto-compaction-mode': 'periodic',
    'auto-compaction-retention': '1h',
    'watch-progress-notify-interval': PROGRESS_INTERVAL_NS,
    'strict-reconfig-check': true,
    // The gateway would speak with the server's certificate and so as whoever its common name says.
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
 * etcd as a unit: its own user, no capability, and of the cluster's state only its own directory. Type=exec although etcd
 * could report READY: it would do so only with a quorum, and nodes that are switched on one by one must not hold up
 * each other's agents. Whether it serves is asked by a read. It is started for ever: by its own rule systemd would let it
 * lie after five ends in ten seconds, and nobody looks until the agent starts anew. Not enabled for the boot either: the agent starts it, after
 * it has looked at the disk and renewed what ran out.
 */
export function buildEtcdUnit(options: {
  readonly etcd: Pick<EtcdInstance, 'name' | 'systemUser'>;
  readonly etcdBinary: string;
  readonly stateDir: string;
  readonly layout: ConsensusLayout;
  /** Of whom it believes, where that was ever changed: it reads it at its start, so another one is another unit. */
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
