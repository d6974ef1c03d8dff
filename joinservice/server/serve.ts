import { X509Certificate } from 'node:crypto';
import { amdTrust } from '../../internal/attestation/snp/index.ts';
import { intelTrust } from '../../internal/attestation/tdx/index.ts';
import {
  answeringMembers,
  EtcdClient,
  Namespace,
  readMemberGauges,
  type EtcdOptions,
  type Member,
} from '../../internal/etcd/index.ts';
import type { Clock } from '../../internal/clock/index.ts';
import { BlobStore } from '../../internal/bundle/index.ts';
import { readText, type FilePort } from '../../internal/file/index.ts';
import { CLUSTER_KEY, CLUSTER_PREFIX } from '../../internal/records/index.ts';
import { certificatesIn } from '../../internal/pki/index.ts';
import type { TlsIdentity } from '../../internal/rpc/index.ts';
import { Secret } from '../../internal/secret/index.ts';
import { OwnerDocuments } from '../ownerdocs/index.ts';
import { Curator, NodeStore, type CuratorFacts } from '../curator/index.ts';
import { createMembershipLookup, listRecordedPersons, serveAuthorization } from '../authzwebhook/index.ts';
import { operatorApiHandlers } from '../operatorapi/index.ts';
import { OperatorApi } from '../curatorproto/gen/operatorapi_pb.js';
import { Distribution } from '../curatorproto/gen/distribution_pb.js';
import { NodeStreams } from '../curatorproto/gen/streams_pb.js';
import { ClusterCollateral } from '../evidence/index.ts';
import {
  DirectoryFeed,
  distributionHandlers,
  watchConfigurationHash,
  watchKeyStage,
} from '../distribution/index.ts';
import { RemovedList, takeReport } from '../removedmachines/index.ts';
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
/** A member of etcd that takes longer to answer one read counts as down. */
const PROBE_MS = 2_000;
/** A socket path without a listener, for a curator without a signer: certificate requests fail. */
const NO_SIGNER = '/nonexistent/signer.sock';
/** The manufacturers whose collateral is trusted. */
const MANUFACTURERS = { amd: amdTrust(), intel: intelTrust() };

/**
 * Serves the curator and, on a port of its own, the join service, until the signal fires.
 * @param options the callbacks get the port when it is open; without `metrics`, no metrics are served
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
  const { clock, log } = ports;
  const files = await readFiles(config, ports.files);
  using etcd = new EtcdClient({
    endpoints: config.etcd.endpoints,
    ...etcdOptions(files, clock),
  });
  using signer = new SignerClient({ path: config.join?.signer.socket ?? NO_SIGNER });
  const parts = createParts(config, ports, { etcd, signer, files });
  const { etcd: cluster, ownerDocs, curator, collateral, sessions, certificates } = parts;
  const trust = { caPem: files.caPem, clusterId: config.clusterId, nowMs: () => clock.nowMs() };
  await using server = createCuratorServer({
    clock,
    upgrade: curatorUpgrade(files.identity, trust, clock),
    services: [
      curator.service,
      curator.authorize(NodeStreams, parts.streams),
      curator.authorize(Distribution, parts.distribution),
      curator.authorize(OperatorApi, parts.operatorApi),
    ],
    log: log.child('rpc'),
  });
  const port = await server.listen(config.listen.host, config.listen.port);
  log.info('curator listening', { host: config.listen.host, port });
  options.onListening?.(port);
  const { signal, metrics, onJoinListening, onAuthorizing } = options;
  const { join, authorize } = config;
  const joinParts = {
    ...{ config, ports, etcd: cluster, ownerDocs, curator, signer, collateral, identity: files.identity },
    clusterCaPem: files.caPem,
    onListening: onJoinListening,
  };
  try {
    await Promise.all([
      ...[curator, parts.feed, collateral, parts.keys, parts.configuration, parts.removals].map((part) =>
        part.run(signal),
      ),
      metrics && runMetrics(metrics, { nodes: curator.nodes, sessions, certificates, clock }, signal),
      join && runJoin(join, joinParts, signal),
      authorize && runAuthorization(authorize, { ...joinParts, onListening: onAuthorizing }, signal),
    ]);
  } finally {
    await server.close(GRACE_MS);
  }
}

function etcdOptions({ etcdIdentity, etcdCaPem }: Awaited<ReturnType<typeof readFiles>>, clock: Clock) {
  return { identity: etcdIdentity, serverCaPem: etcdCaPem, clock };
}

/** The keys and certificates that the program reads when it starts. */
async function readFiles(config: JoinserviceConfig, files: FilePort) {
  const read = (path: string) => readFile(files, path);
  return {
    identity: await readIdentity(read, config),
    etcdIdentity: await readIdentity(read, config.etcd),
    caPem: await read(config.clusterCaFile),
    etcdCaPem: await read(config.etcd.caFile),
  };
}

/** Creates the curator, the other contracts that it serves, and the watches of etcd that these need. */
function createParts(
  config: JoinserviceConfig,
  ports: ServePorts,
  open: { etcd: EtcdClient; signer: SignerClient; files: Awaited<ReturnType<typeof readFiles>> },
) {
  const { etcd: client, signer, files } = open;
  const { clock, log } = ports;
  const { clusterId, nodeId } = config;
  const etcd = new Namespace(client, CLUSTER_PREFIX);
  const ownerKeys = (config.ownerKeys ?? []).map((key) => new Uint8Array(Buffer.from(key, 'base64')));
  const ownerDocs = new OwnerDocuments({ etcd, clock, clusterId, ownerKeys });
  const certificates = expiryOf({
    curator: files.identity.certPem,
    'cluster-ca': newestIn(files.caPem),
    'etcd-client': files.etcdIdentity.certPem,
  });
  const facts = { certificates, ...etcdFacts(client, config.etcd.metricsUrl, etcdOptions(files, clock)) };
  const curator = new Curator({ etcd, ownerDocs, nodeId, facts, clock, log: log.child('curator') });
  const feed = new DirectoryFeed({ nodes: curator.nodes, clock });
  const collateral = new ClusterCollateral({ etcd, log: log.child('collateral') });
  const keys = watchKeyStage({ etcd, log: log.child('keys') });
  const configuration = watchConfigurationHash({ etcd, log: log.child('configuration') });
  const removals = new RemovedList({ etcd, ownerDocs, clock, log: log.child('removals') });
  const sessions = new NodeSessions();
  const nodes = new NodeStore(etcd);
  const findNode = (node: string, stop: AbortSignal) => nodes.get(node, stop);
  return {
    ...{ etcd, ownerDocs, certificates, curator, feed, collateral, keys, configuration, removals },
    sessions,
    distribution: distributionHandlers({
      ...{ etcd, feed, keys, configuration, removals, collateral, blobs: storeOf(config, ports) },
      takeReport: (request, call) => takeReport({ etcd, audit: curator.audit, clock }, request, call),
    }),
    streams: streamHandlers({ sessions, findNode, clock }),
    operatorApi: operatorApiHandlers({
      ...{ etcd, mutations: curator.mutations, nodes, ownerDocs, clock, signer },
      clusterCaPem: files.caPem,
      manufacturers: MANUFACTURERS,
    }),
  };
}

/** Serves the authorization webhook for the API server of this node. */
async function runAuthorization(
  { port, callersCaFile }: NonNullable<JoinserviceConfig['authorize']>,
  {
    ports,
    etcd,
    ownerDocs,
    identity,
    onListening,
  }: Pick<JoinParts, 'ports' | 'etcd' | 'ownerDocs' | 'identity' | 'onListening'>,
  signal: AbortSignal,
): Promise<void> {
  const callersCaPem = await readFile(ports.files, callersCaFile);
  const { clock } = ports;
  const sources = {
    lookup: createMembershipLookup({ etcd, ownerDocs }, clock),
    persons: (stop: AbortSignal) => listRecordedPersons({ ownerDocs, clock }, stop),
    log: ports.log.child('authorize'),
  };
  await serveAuthorization({ port, identity, callersCaPem, onListening }, sources, signal);
}

/** Expiry times of the certificates that this program shows or trusts. */
function expiryOf(pems: Readonly<Record<string, string>>) {
  return Object.entries(pems).map(([name, pem]) => ({
    name,
    notAfterMs: Date.parse(new X509Certificate(pem).validTo),
  }));
}

/**
 * The newest certificate of a PEM bundle. While the cluster CA is replaced, the bundle has the previous CA first and
 * the next CA last.
 */
function newestIn(bundlePem: string): string {
  return certificatesIn(bundlePem).at(-1) ?? bundlePem;
}

function storeOf({ stores: [first, ...more] }: JoinserviceConfig, ports: ServePorts): BlobStore | undefined {
  if (first === undefined) return undefined;
  return new BlobStore({ files: ports.files, streams: ports.streams, roots: [first, ...more] });
}

function etcdFacts(
  etcd: EtcdClient,
  metricsUrl: string,
  options: Omit<EtcdOptions, 'endpoints'>,
): Pick<CuratorFacts, 'etcdStatus' | 'etcdMembers'> {
  const toFacts = ({ name, isLearner }: Member) => ({ name, isLearner, started: name !== '' });
  return {
    etcdMembers: async (signal) => (await etcd.members.list({ signal })).map(toFacts),
    etcdStatus: async (signal, { probesMembers }) => {
      const [gauges, members] = await Promise.all([
        readMemberGauges(metricsUrl, signal),
        etcd.members.list({ signal }),
      ]);
      const { dbSizeBytes, quotaBytes, hasLeader, isFull, isCorrupt } = gauges;
      const sizes = { dbSizeBytes: BigInt(dbSizeBytes), quotaBytes: BigInt(quotaBytes) };
      const probe = { ...options, key: `${CLUSTER_PREFIX}${CLUSTER_KEY}`, timeoutMs: PROBE_MS, signal };
      const answering = probesMembers ? await answeringMembers(members, probe) : undefined;
      const answersOf = ({ id }: Member) => answering && { answers: answering.has(id) };
      const listed = members.map((member) => ({ ...toFacts(member), ...answersOf(member) }));
      return { ...sizes, hasLeader, isFull, isCorrupt, members: listed };
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
