import { createHash } from 'node:crypto';
import { isIP } from 'node:net';
import type { ClusterRestore, ClusterSpec } from '../../initproto/gen/init_pb.js';
import { familiesOf, subnetsFrom } from '../../internal/config/index.ts';
import { DNS_LABEL, DNS_NAME } from '../../internal/endpoint/index.ts';
import { NODE_ID } from '../../internal/pki/index.ts';
import { knownMachineShape, MAX_KNOWN_MACHINES, type KnownMachine } from '../../internal/records/index.ts';
import { CONTROL_PLANE_KEY_FILES, OPTIONAL_KEY_FILES } from '../kubernetes/index.ts';
import { InitServerError } from './errors.ts';

/** The validated specification of a new cluster. Bytes are hex or base64, so that it can be saved as JSON. */
export interface InitSpec {
  readonly clusterName: string;
  readonly clusterId: string;
  readonly kubernetesVersion: string;
  /** The exact text of the bundle's manifest. */
  readonly bundleManifest: string;
  readonly podSubnet: string;
  readonly serviceSubnet: string;
  readonly apiServerSans: readonly string[];
  readonly nodeName: string;
  readonly singleNode: boolean;
  readonly kubernetesAdminCsrBase64: string;
  readonly ownerCsrBase64: string;
  /** The secret for disk shares (internal/keyset); on the wire and on disk it has the name of earlier releases. Empty after the acknowledgement. */
  readonly clusterUnlockKeyHex: string;
  readonly configuration: string;
  /** Documents that the owner has signed (internal/ownerdocument), base64; absent from requests of older versions. */
  readonly ownerDocumentsBase64?: readonly string[];
  /** Set if the cluster is restored from a backup. */
  readonly restore?: InitRestore;
}

/** The content of the backup from which a cluster is restored. Its snapshots are blobs in the store of the machine. */
export interface InitRestore {
  /** The epoch of the restored cluster. */
  readonly epoch: number;
  readonly stateSnapshotSha256: string;
  readonly kubernetesSnapshotSha256: string;
  /** Secret. Texts by the names of `CONTROL_PLANE_KEY_FILES`; empty once the owner has acknowledged the result. */
  readonly sharedKeys: Readonly<Record<string, string>>;
  /** Machines that the workspace of the owner knows and the backup may not; absent from requests of older versions. */
  readonly knownMachines?: readonly KnownMachine[];
  /** Workers of the backup that stay members; absent if there are none. */
  readonly keptWorkers?: readonly KeptWorker[];
}

/** A worker that still runs with its node key of the backup. */
export interface KeptWorker {
  readonly nodeId: string;
  readonly name: string;
}

const MAX_MANIFEST = 1024 * 1024;
const MAX_CONFIGURATION = 1024 * 1024;
const MAX_CSR = 16 * 1024;
const KEY_BYTES = 32;
const MAX_SANS = 64;
const MAX_DOCUMENTS = 8;
const MAX_DOCUMENT = 64 * 1024;
const MAX_KEYS = 32;
const MAX_KEY_TEXT = 1024 * 1024;
const SHA256 = /^[0-9a-f]{64}$/;

/** Parses a specification: sizes, then formats. @throws InitServerError `initserver-spec-invalid` */
export function parseInitSpec(wire: ClusterSpec | undefined, hostname: string): InitSpec {
  if (wire === undefined) throw refused('spec', 'missing');
  const nodeName = wire.nodeName === '' ? hostname.toLowerCase() : wire.nodeName;
  check('cluster_name', DNS_LABEL.test(wire.clusterName), wire.clusterName);
  check('cluster_id', /^[0-9a-f]{32}$/.test(wire.clusterId), wire.clusterId);
  check('kubernetes_version', /^v1\.\d{1,3}\.\d{1,3}$/.test(wire.kubernetesVersion), wire.kubernetesVersion);
  check('node_name', DNS_NAME.test(nodeName), nodeName);
  check('pod_subnet', isNetworks(wire.podSubnet), wire.podSubnet);
  check('service_subnet', isNetworks(wire.serviceSubnet), wire.serviceSubnet);
  const families = [wire.podSubnet, wire.serviceSubnet].map((each) => familiesOf(each).join());
  check('service_subnet', families[0] === families[1], wire.serviceSubnet);
  checkSize('bundle_manifest', wire.bundleManifest, MAX_MANIFEST);
  checkSize('configuration', wire.configuration, MAX_CONFIGURATION, 0);
  checkSize('kubernetes_admin_csr', wire.kubernetesAdminCsr, MAX_CSR);
  checkSize('owner_csr', wire.ownerCsr, MAX_CSR);
  checkSize('cluster_unlock_key', wire.clusterUnlockKey, KEY_BYTES, KEY_BYTES);
  check('api_server_sans', wire.apiServerSans.length <= MAX_SANS, `${wire.apiServerSans.length} names`);
  check('owner_documents', wire.ownerDocuments.length <= MAX_DOCUMENTS, `${wire.ownerDocuments.length}`);
  for (const each of wire.ownerDocuments) checkSize('owner_documents', each, MAX_DOCUMENT);
  for (const san of wire.apiServerSans) check('api_server_sans', isIP(san) !== 0 || DNS_NAME.test(san), san);
  return {
    clusterName: wire.clusterName,
    clusterId: wire.clusterId,
    kubernetesVersion: wire.kubernetesVersion,
    bundleManifest: Buffer.from(wire.bundleManifest).toString('utf8'),
    podSubnet: wire.podSubnet,
    serviceSubnet: wire.serviceSubnet,
    apiServerSans: wire.apiServerSans,
    nodeName,
    singleNode: wire.singleNode,
    kubernetesAdminCsrBase64: Buffer.from(wire.kubernetesAdminCsr).toString('base64'),
    ownerCsrBase64: Buffer.from(wire.ownerCsr).toString('base64'),
    clusterUnlockKeyHex: Buffer.from(wire.clusterUnlockKey).toString('hex'),
    configuration: Buffer.from(wire.configuration).toString('utf8'),
    ownerDocumentsBase64: wire.ownerDocuments.map((each) => Buffer.from(each).toString('base64')),
    ...(wire.restore === undefined ? {} : { restore: parseRestore(wire.restore) }),
  };
}

/** An error never contains a key. */
function parseRestore(wire: ClusterRestore): InitRestore {
  const { epoch, stateSnapshotSha256, kubernetesSnapshotSha256, sharedKeys, knownMachines, keptWorkers } =
    wire;
  check('restore.epoch', epoch > 1n && epoch <= BigInt(Number.MAX_SAFE_INTEGER), String(epoch));
  check('restore.state_snapshot_sha256', SHA256.test(stateSnapshotSha256), stateSnapshotSha256);
  check(
    'restore.kubernetes_snapshot_sha256',
    SHA256.test(kubernetesSnapshotSha256),
    kubernetesSnapshotSha256,
  );
  const keys = Object.entries(sharedKeys);
  const known = { ...CONTROL_PLANE_KEY_FILES, ...OPTIONAL_KEY_FILES };
  const unknown = keys.map(([name]) => name).filter((name) => !Object.hasOwn(known, name));
  check('restore.shared_keys', unknown.length === 0, `unknown keys ${unknown.join(', ')}`);
  const missing = Object.keys(CONTROL_PLANE_KEY_FILES).filter((name) => sharedKeys[name] === undefined);
  check('restore.shared_keys', missing.length === 0, `${missing.join(', ')} missing`);
  check('restore.shared_keys', keys.length > 0 && keys.length <= MAX_KEYS, `${keys.length} keys`);
  for (const [name, text] of keys)
    check(
      'restore.shared_keys',
      text.length > 0 && text.length <= MAX_KEY_TEXT,
      `${name}: ${text.length} characters`,
    );
  const machines = knownMachines.length;
  check('restore.known_machines', machines <= MAX_KNOWN_MACHINES, `${machines} machines`);
  for (const { identity, nodeId, name } of knownMachines) {
    const machine = { identity, nodeId, name };
    check('restore.known_machines', knownMachineShape.safeParse(machine).success, JSON.stringify(machine));
  }
  const workers = keptWorkers.length;
  check('restore.kept_workers', workers <= MAX_KNOWN_MACHINES, `${workers} workers`);
  for (const { nodeId, name } of keptWorkers) {
    check('restore.kept_workers', NODE_ID.test(nodeId), nodeId);
    check('restore.kept_workers', DNS_NAME.test(name), name);
  }
  return {
    epoch: Number(epoch),
    stateSnapshotSha256,
    kubernetesSnapshotSha256,
    sharedKeys: { ...sharedKeys },
    ...(knownMachines.length > 0 && {
      knownMachines: knownMachines.map(({ identity, nodeId, name }) => ({ identity, nodeId, name })),
    }),
    ...(keptWorkers.length > 0 && { keptWorkers: keptWorkers.map(({ nodeId, name }) => ({ nodeId, name })) }),
  };
}

/** SHA-256 of a specification in hex; equal for equal requests. */
export function digestOfSpec(spec: InitSpec): string {
  return createHash('sha256').update(JSON.stringify(spec)).digest('hex');
}

function checkSize(field: string, { length }: Uint8Array, max: number, min = 1): void {
  check(field, length >= min && length <= max, `${length} bytes, ${min} to ${max} allowed`);
}

/** One network, or one of each family. `cluster.yaml` is stricter about sizes. */
function isNetworks(text: string): boolean {
  const subnets = subnetsFrom(text);
  if (subnets === undefined || new Set(familiesOf(text)).size !== subnets.length) return false;
  return subnets.every(({ family, prefix }) => prefix >= 8 && prefix <= (family === 'IPv4' ? 28 : 124));
}

function check(field: string, fine: boolean, value: string): void {
  if (!fine) throw refused(field, `invalid value ${JSON.stringify(value.slice(0, 100))}`);
}

function refused(field: string, why: string): InitServerError {
  return new InitServerError('initserver-spec-invalid', `invalid cluster specification: ${field}: ${why}`, {
    details: { field },
  });
}
