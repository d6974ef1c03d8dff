import type { CertificatesConfig } from '../../internal/config/index.ts';
import { rawFromEd25519Spki } from '../../internal/crypto/index.ts';
import { formatEndpoint, PORTS } from '../../internal/endpoint/index.ts';
import type { SystemPorts } from '../../internal/platform/index.ts';
import type { NamedKey, RunningEtcdPair } from '../consensus/index.ts';
import { ensureCuratorCredentials, writeCredentials } from '../credentials/index.ts';
import { writeAuthorizationConfig } from '../kubernetes/index.ts';
import type { Membership } from '../membership/index.ts';
import { AGENT_PATHS, type MachineIdentity } from '../nodestate/index.ts';
import type { LocalControlPlane, Say } from '../roleserve/index.ts';
import { ensureCurator } from '../units/index.ts';
import type { FirstEvidence } from './create-first-records.ts';

/** This machine, as join service and curator need it. */
export interface CuratorMachine {
  readonly machine: MachineIdentity;
  /** Evidence of this machine. */
  readonly evidence: FirstEvidence;
  readonly owners: readonly [NamedKey, ...NamedKey[]];
  readonly lifetimes: () => CertificatesConfig;
  /** Directories of blobs that the join service of this machine distributes to other nodes. */
  readonly blobStores: readonly [string, ...string[]];
}

interface CuratorStart extends CuratorMachine {
  readonly membership: Membership;
  /** Both etcd members of this machine. */
  readonly etcd: RunningEtcdPair;
  /** Receives what the start waits for, and the last error. */
  readonly say: Say | undefined;
  readonly signal: AbortSignal;
}

/**
 * Starts the join service and the curator, or restarts them if their configuration or credentials changed. Also writes
 * the configuration with which the API server reaches the authorization webhook, which runs in the join service.
 */
export async function startCurator(ports: SystemPorts, start: CuratorStart): Promise<LocalControlPlane> {
  const { membership, blobStores: stores, machine, lifetimes, owners, evidence } = start;
  const { endpoint, metricsUrl } = start.etcd.state;
  const [curator, apiServer] = [
    start.etcd.state.client('curator'),
    start.etcd.kubernetes.client('apiserver'),
  ];
  const { files, clock } = ports;
  await files.makeDirectory(`${stores[0]}/blobs/sha256`, 0o755);
  const { certFile, caFile } = await writeCredentials(files, membership);
  const own = await ensureCuratorCredentials(
    { files, nowMs: () => clock.nowMs() },
    { membership, machine, validMinutes: lifetimes().nodeMinutes },
  );
  const { clusterId, nodeId, nodeAddress } = membership;
  const config = {
    ...{ clusterId, nodeId, address: nodeAddress, variant: evidence.variant, stores },
    ...{ etcdEndpoint: endpoint, metricsUrl, stateDir: AGENT_PATHS.state },
    ownerKeys: owners.map(({ pubKeyDer }) => Buffer.from(rawFromEd25519Spki(pubKeyDer)).toString('base64')),
    credentials: {
      'cluster-ca.crt': caFile,
      'curator.crt': own.certFile,
      'curator.key': own.keyFile,
      'etcd-ca.crt': curator.caFile,
      'etcd.crt': curator.certFile,
      'etcd.key': curator.keyFile,
      'apiserver-ca.crt': apiServer.caFile,
    },
    node: { certFile, keyFile: AGENT_PATHS.machineKey },
  };
  await ensureCurator(ports, config, start);
  // The API server reads this file when it starts. It starts after the curator, so the file exists by then.
  await writeAuthorizationConfig(files, { ...webhookOf(membership, start.etcd), persons: [] });
  return { apiServerEtcd: apiServer, curatorEndpoint: formatEndpoint(nodeAddress, PORTS.curator) };
}

/** How the API server and this agent reach the authorization webhook. */
export function webhookOf({ nodeId, clusterCaPem }: Membership, etcd: RunningEtcdPair) {
  const client = etcd.kubernetes.client('apiserver');
  return { nodeId, clusterCaPem, port: PORTS.authorization, client };
}
