import { X509Certificate } from 'node:crypto';
import { amdTrust } from '../../internal/attestation/snp/index.ts';
import { intelTrust } from '../../internal/attestation/tdx/index.ts';
import { EtcdClient, Namespace, readMemberGauges } from '../../internal/etcd/index.ts';
import { BlobStore } from '../../internal/bundle/index.ts';
import { readText, type FilePort } from '../../internal/file/index.ts';
import { CLUSTER_PREFIX } from '../../internal/records/index.ts';
import type { TlsIdentity } from '../../internal/rpc/index.ts';
import { Secret } from '../../internal/secret/index.ts';
import { OwnerDocuments } from '../ownerdocs/index.ts';
import { Curator, NodeStore, type CuratorFacts } from '../curator/index.ts';
import { createMembershipLookup, serveAuthorization } from '../authzwebhook/index.ts';
import { operatorApiHandlers } from '../operatorapi/index.ts';
import { OperatorApi } from '../curatorproto/gen/operatorapi_pb.js';
import { Distribution } from '../curatorproto/gen/distribution_pb.js';
import { NodeStreams } from '../curatorproto/gen/streams_pb.js';
import { ClusterCollateral } from '../evidence/index.ts';
import { ConfigurationFeed, DirectoryFeed, distributionHandlers, KeysFeed } from '../distribution/index.ts';
import { SignerClient } from '../signerlink/index.ts';
import { NodeSessions, streamHandlers } from '../streams/index.ts';
import { curatorUpgrade } from './curator-upgrade.ts';
import { createCuratorServer } from './curator-listener.ts';
import type { JoinserviceConfig } from './joinservice-config.ts';
import { JoinserviceError } from './errors.ts';
import { runJoin, type JoinParts, type ServePorts } from './run-join.ts';
import { runMetrics, type MetricsOptions } from './run-metrics.ts';

const MAX_PEM_BYTES = 64 * 1024;
const GRACE_MS = 2_000;
/** A socket path without a listener, for a curator without a signer: certificate requests fail. */
const NO_SIGNER = '/nonexistent/signer.sock';
/** The manufacturers whose collateral is trusted. */
const MANUFACTURERS = { amd: amdTrust(), intel: intelTrust() };

/**
 * Serves the curator and, on a port of its own, the join service, until the signal fires.
 * @param options the callbacks get the port once it is open; `metrics` are served only where given
 */
export async function serve(
  config: JoinserviceConfig,
  ports: ServePorts,
  options: {
    readonly signal: AbortSignal;
    readonly onListening?: (port: number) => void;
    readonly onJoinListening?: (port: number) => void;
    readonly onAuthorizing?: (port: number) => void;
    readonly metrics?: MetricsOptions;
  },
): Promise<void> {
  const { files, clock, log } = ports;
  const read = (path: string) => readFile(files, path);
  const identity = await readIdentity(read, config);
  const etcdIdentity = await readIdentity(read, config.etcd);
  const caPem = await read(config.clusterCaFile);
  const etcdCaPem = await read(config.etcd.caFile);
  using etcd = new EtcdClient({
    endpoints: config.etcd.endpoints,
    identity: etcdIdentity,
    serverCaPem: etcdCaPem,
    clock,
  });
  const certificates = expiryOf({
    curator: identity.certPem,
    'cluster-ca': caPem,
    'etcd-client': etcdIdentity.certPem,
  });
  const cluster = new Namespace(etcd, CLUSTER_PREFIX);
  const ownerDocs = new OwnerDocuments({
    etcd: cluster,
    clock,
    clusterId: config.clusterId,
    ownerKeys: (config.ownerKeys ?? []).map((key) => new Uint8Array(Buffer.from(key, 'base64'))),
  });
  const curator = new Curator({
    etcd: cluster,
    ownerDocs,
    nodeId: config.nodeId,
    facts: { certificates, ...etcdFacts(etcd, config.etcd.metricsUrl) },
    clock,
    log: log.child('curator'),
  });
  const feed = new DirectoryFeed({ nodes: curator.nodes, clock });
  const collateral = new ClusterCollateral({ etcd: cluster, log: log.child('collateral') });
  const blobs = storeOf(config, ports);
  const keys = new KeysFeed({ etcd: cluster, log: log.child('keys') });
  const configuration = new ConfigurationFeed({ etcd: cluster });
  const distribution = distributionHandlers({
    ...{ etcd: cluster, feed, keys, configuration, collateral, blobs },
  });
  const sessions = new NodeSessions();
  const nodes = new NodeStore(cluster);
  const findNode = (node: string, stop: AbortSignal) => nodes.get(node, stop);
  const streams = streamHandlers({ sessions, findNode, clock });
  const { join } = config;
  using signer = new SignerClient({ path: join?.signer.socket ?? NO_SIGNER });
  const operatorApi = operatorApiHandlers({
    ...{ etcd: cluster, mutations: curator.mutations, nodes, ownerDocs, clock, signer },
    manufacturers: MANUFACTURERS,
  });
  const trust = { caPem, clusterId: config.clusterId, nowMs: () => clock.nowMs() };
  await using server = createCuratorServer({
    clock,
    upgrade: curatorUpgrade(identity, trust, clock),
    services: [
      curator.service,
      curator.authorize(NodeStreams, streams),
      curator.authorize(Distribution, distribution),
      curator.authorize(OperatorApi, operatorApi),
    ],
    log: log.child('rpc'),
  });
  const port = await server.listen(config.listen.host, config.listen.port);
  log.info('curator listening', { host: config.listen.host, port });
  options.onListening?.(port);
  const { signal, onJoinListening } = options;
  const parts = {
    ...{ config, ports, etcd: cluster, ownerDocs, curator, identity, collateral },
    onListening: onJoinListening,
  };
  try {
    await Promise.all([
      curator.run(signal),
      feed.run(signal),
      collateral.run(signal),
      keys.run(signal),
      configuration.run(signal),
      options.metrics === undefined
        ? undefined
        : runMetrics(options.metrics, { nodes: curator.nodes, sessions, certificates, clock }, signal),
      join === undefined ? undefined : runJoin(join, { ...parts, signer }, signal),
      config.authorize === undefined
        ? undefined
        : runAuthorization(config.authorize, { ...parts, onListening: options.onAuthorizing }, signal),
    ]);
  } finally {
    await server.close(GRACE_MS);
  }
}

/** Serves the authorization webhook for the API server of this node. */
async function runAuthorization(
  { port, callersCaFile }: NonNullable<JoinserviceConfig['authorize']>,
  { ports, etcd, identity, onListening }: Pick<JoinParts, 'ports' | 'etcd' | 'identity' | 'onListening'>,
  signal: AbortSignal,
): Promise<void> {
  const callersCaPem = await readFile(ports.files, callersCaFile);
  const lookup = createMembershipLookup(etcd, ports.clock);
  const log = ports.log.child('authorize');
  await serveAuthorization({ port, identity, callersCaPem, onListening }, { lookup, log }, signal);
}

/** Expiry times of the certificates that this program shows or trusts. */
function expiryOf(pems: Readonly<Record<string, string>>) {
  return Object.entries(pems).map(([name, pem]) => ({
    name,
    notAfterMs: Date.parse(new X509Certificate(pem).validTo),
  }));
}

function storeOf({ stores: [first, ...more] }: JoinserviceConfig, ports: ServePorts): BlobStore | undefined {
  if (first === undefined) return undefined;
  return new BlobStore({ files: ports.files, streams: ports.streams, roots: [first, ...more] });
}

function etcdFacts(etcd: EtcdClient, metricsUrl: string): Pick<CuratorFacts, 'etcdStatus' | 'etcdMembers'> {
  const etcdMembers: CuratorFacts['etcdMembers'] = async (signal) => {
    const members = await etcd.members.list({ signal });
    return members.map(({ name, isLearner }) => ({ name, isLearner, started: name !== '' }));
  };
  return {
    etcdMembers,
    etcdStatus: async (signal) => {
      const { dbSizeBytes, quotaBytes, hasLeader, isFull } = await readMemberGauges(metricsUrl, signal);
      const sizes = { dbSizeBytes: BigInt(dbSizeBytes), quotaBytes: BigInt(quotaBytes) };
      return { ...sizes, hasLeader, isFull, members: await etcdMembers(signal) };
    },
  };
}

async function readIdentity(
  read: (path: string) => Promise<string>,
  files: { readonly certFile: string; readonly keyFile: string },
): Promise<TlsIdentity> {
  return { certPem: await read(files.certFile), keyPem: new Secret(await read(files.keyFile)) };
}

async function readFile(files: FilePort, path: string): Promise<string> {
  const text = await readText(files, path, MAX_PEM_BYTES);
  if (text === undefined) throw new JoinserviceError('joinservice-file-missing', `file ${path} not found`);
  return text;
}
