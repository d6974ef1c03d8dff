import type { Clock } from '../../internal/clock/index.ts';
import { EtcdClient, Namespace, type KeySpace } from '../../internal/etcd/index.ts';
import { readText, type FilePort } from '../../internal/file/index.ts';
import type { LogFields, Logger } from '../../internal/logging/index.ts';
import { CLUSTER_PREFIX, COLLATERAL_KEY, records } from '../../internal/records/index.ts';
import {
  implement,
  localUpgrade,
  RpcServer,
  type Handlers,
  type LocalPeer,
} from '../../internal/rpc/index.ts';
import { Secret } from '../../internal/secret/index.ts';
import { Signer } from '../signerproto/gen/signer_pb.js';
import { bundleIn } from '../evidence/index.ts';
import type { ReservedNetworks } from './check-address.ts';
import { DiskShareGiver } from './disk-share-giver.ts';
import type { SignerConfig } from './signer-config.ts';
import { SignerError } from './errors.ts';
import { EvidenceVerifier } from './evidence-verifier.ts';
import { signKubeconfig } from './kubeconfig-signer.ts';
import { KeyRing } from './key-ring.ts';
import { SignerMemory } from './signer-memory.ts';
import { MemberSigner, type SignerReads } from './member-signer.ts';
import { SignerOwnerDocuments } from './signer-owner-documents.ts';
import { StoredConfiguration } from './stored-configuration.ts';

const MAX_PEM_BYTES = 64 * 1024;
const GRACE_MS = 2_000;

/** The access of this program to files, the clock and the log. */
export interface SignerPorts {
  readonly files: FilePort;
  readonly clock: Clock;
  readonly log: Logger;
}

/** Serves the signer until the signal fires. */
export async function serveSigner(
  config: SignerConfig,
  ports: SignerPorts,
  options: { readonly signal: AbortSignal; readonly onListening?: () => void },
): Promise<void> {
  const { files, clock, log } = ports;
  const { endpoint, caFile, certFile, keyFile } = config.etcd;
  const certPem = await readFile(files, certFile);
  const keyPem = new Secret(await readFile(files, keyFile));
  const serverCaPem = await readFile(files, caFile);
  using etcd = new EtcdClient({ endpoints: [endpoint], identity: { certPem, keyPem }, serverCaPem, clock });
  const space = new Namespace(etcd, CLUSTER_PREFIX);
  const reads = createReads(config, { ...ports, etcd: space });
  await using server = new RpcServer<LocalPeer>({
    clock,
    upgrade: localUpgrade,
    services: [implement(Signer, signerHandlers(reads, log))],
    disclose: 'chain',
    log: log.child('rpc'),
  });
  await files.remove(config.listen); // a killed process may have left the socket
  await server.listenAt(config.listen);
  log.info('signer listening', { path: config.listen });
  options.onListening?.();
  await new Promise<void>((resolve) => {
    if (options.signal.aborted) resolve();
    options.signal.addEventListener('abort', () => resolve(), { once: true });
  });
  await server.close(GRACE_MS);
}

/** The facts on which the signer bases its decisions. Facts that must not come from etcd come from the configuration. */
export function createReads(
  { cluster, keys, memory: directory }: Pick<SignerConfig, 'cluster' | 'keys' | 'memory'>,
  ports: Pick<SignerPorts, 'files' | 'clock'> & { readonly etcd: KeySpace },
): SignerReads {
  const { files, clock, etcd } = ports;
  const { clusterId, epoch, own, networks, signedAfterMs } = cluster;
  const [first, ...others] = cluster.ownerKeys.map((key) => new Uint8Array(Buffer.from(key, 'base64')));
  if (first === undefined) throw new TypeError('configuration without an owner');
  const nowMs = (): number => clock.nowMs();
  const memory = new SignerMemory({ files, directory });
  const configuration = new StoredConfiguration(etcd);
  return {
    ...{ etcd, memory, configuration, clock },
    keys: new KeyRing({ files, directory: keys, nowMs }),
    documents: new SignerOwnerDocuments({
      ...{ etcd, memory, nowMs, clusterId, epoch, signedAfterMs },
      ownerKeys: [first, ...others],
    }),
    evidence: new EvidenceVerifier({
      attestation: async (signal) => (await configuration.now(signal)).attestation(),
      // Read for each request instead of watched, since the connection to etcd may be down between requests.
      collateral: async (signal) => {
        const { record } = await records.collateral.read(etcd, COLLATERAL_KEY, signal);
        return bundleIn(record).forValidators;
      },
      ...{ clusterId, nowMs },
    }),
    cluster: { clusterId, own, networks: withoutUndefined(networks) },
  };
}

function withoutUndefined({
  apiEndpoint,
  ...networks
}: SignerConfig['cluster']['networks']): ReservedNetworks {
  return apiEndpoint === undefined ? networks : { ...networks, apiEndpoint };
}

/** Handlers of the contract `Signer`. Each signature is logged. */
export function signerHandlers(reads: SignerReads, log: Logger): Handlers<typeof Signer, LocalPeer> {
  const signer = new MemberSigner(reads);
  const shares = new DiskShareGiver(reads);
  return {
    signMember: async (request, { signal }) => {
      const { nodeId: node, address } = request;
      const asked = { ...request, timeMs: Number(BigInt.asIntN(53, request.timeMs)) };
      const signed = await signer
        .signMember(asked, signal)
        .catch(refused(log, 'refused to sign certificates for a node', { node }));
      log.info('signed for a node', { node, address, keys: 'controlPlaneKeys' in signed });
      return signed;
    },
    signOperator: async ({ certificateRequest }, { signal }) => {
      const certificatePem = await signer
        .signOperator(certificateRequest, signal)
        .catch(refused(log, 'refused to sign a certificate for an operator'));
      log.info('signed for an operator');
      return { certificatePem };
    },
    signKubeconfig: async (request, { signal }) => {
      const signed = await signKubeconfig(reads, request, signal).catch(
        refused(log, 'refused to sign a kubeconfig'),
      );
      log.info('signed for a kubeconfig');
      return signed;
    },
    giveDiskShare: async (request, { signal }) => {
      const { uuid } = request;
      const asked = { ...request, timeMs: Number(BigInt.asIntN(53, request.timeMs)) };
      const { answer, nodeId, identity } = await shares
        .give(asked, signal)
        .catch(refused(log, 'refused to give the share of a state disk', { uuid }));
      log.info('share of a state disk given', { node: nodeId, identity, uuid });
      return answer;
    },
  };
}

/** Logs a refusal, of which the caller gets only a code, and throws it on. */
function refused(log: Logger, message: string, fields: LogFields = {}): (error: unknown) => never {
  return (error) => {
    log.warn(message, { ...fields, error });
    throw error;
  };
}

async function readFile(files: FilePort, path: string): Promise<string> {
  const text = await readText(files, path, MAX_PEM_BYTES);
  if (text === undefined) throw new SignerError('signer-key-missing', `file ${path} not found`);
  return text;
}
