import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { createHash } from 'node:crypto';
import { ClusterSpecSchema, type ClusterSpec } from '../../../initproto/gen/init_pb.js';
import {
  canonicalJson,
  clusterPartOf,
  clusterSettingsFrom,
  type ClusterConfig,
} from '../../../internal/config/index.ts';
import { deriveKey, type MasterSecret } from '../../../internal/crypto/index.ts';
import type { SignedKeys } from '../../../internal/keyset/index.ts';
import { createCertificateRequest, keyPemFromSeed } from '../../../internal/pki/index.ts';
import { Secret } from '../../../internal/secret/index.ts';
import type { InitState, OwnerKey } from '../../workspace/index.ts';
import { signInitialDocuments } from './initial-documents.ts';
import type { VerifiedMachine } from '../machine/verify-machine.ts';

const CLUSTER_ID_BYTES = 16;
/** The secret for disk shares. */
const DISK_SHARES_BYTES = 32;
const INIT_ID_BYTES = 16;
const ADMIN_SEED_BYTES = 48;

/** A request to create a cluster. It is saved before it is sent. */
export interface InitRequest {
  readonly initId: string;
  /** SHA-256 of the configuration and the bundle: equal requests have equal hashes. */
  readonly requestHash: string;
  readonly spec: ClusterSpec;
  /** The key of the kubeconfig; it never leaves the workstation. */
  readonly adminKeyPem: Secret<string>;
}

/** The cluster ID, 32 hex digits, derived from the master secret. */
export function clusterIdFrom(masterSecret: MasterSecret): string {
  const id = deriveKey(masterSecret, { kind: 'cluster-id' }, CLUSTER_ID_BYTES);
  return Buffer.from(id.reveal()).toString('hex');
}

/**
 * The ID of the init, derived from the master secret: a workspace creates only one cluster, and finds the same init
 * again after it has lost its state. A UUID of version 8 (RFC 9562).
 */
export function initIdFrom(masterSecret: MasterSecret): string {
  const id = Buffer.from(deriveKey(masterSecret, { kind: 'init-id' }, INIT_ID_BYTES).reveal());
  id[6] = ((id[6] ?? 0) & 0x0f) | 0x80;
  id[8] = ((id[8] ?? 0) & 0x3f) | 0x80;
  return id.toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
}

/** The key of the kubeconfig, derived from the master secret so that a lost kubeconfig can be created again. */
export function adminKeyFrom(masterSecret: MasterSecret): Secret<string> {
  return keyPemFromSeed(deriveKey(masterSecret, { kind: 'kubernetes-admin' }, ADMIN_SEED_BYTES));
}

/** Hash of everything that defines the cluster. The manifest is included because it names every component by hash. */
export function requestHashOf(config: ClusterConfig, manifestBytes: Uint8Array): string {
  return createHash('sha256')
    .update(canonicalJson(clusterPartOf(config)))
    .update('\0')
    .update(manifestBytes)
    .digest('hex');
}

/** Creates a request. The same workspace always uses the same init ID and the same keys. */
export async function createInitRequest(options: {
  readonly config: ClusterConfig;
  readonly masterSecret: MasterSecret;
  readonly ownerKey: OwnerKey;
  readonly manifestBytes: Uint8Array;
  /** The first machine: the owner signs a grant for its control-plane role. */
  readonly machine: VerifiedMachine;
  /** Epoch of the cluster: above 1 if it is restored. */
  readonly epoch: number;
  /** The shared keys of a restored cluster, if they were rotated. */
  readonly sharedKeys?: SignedKeys | undefined;
  readonly nowMs: number;
}): Promise<InitRequest> {
  const { config, masterSecret, ownerKey, manifestBytes, machine, epoch, sharedKeys, nowMs } = options;
  const adminKeyPem = adminKeyFrom(masterSecret);
  const clusterId = clusterIdFrom(masterSecret);
  const configuration = Buffer.from(canonicalJson(clusterPartOf(config)), 'utf8');
  const singleNode = config.firstNode.runsWorkloads;
  const spec = create(ClusterSpecSchema, {
    clusterName: config.name,
    clusterId,
    kubernetesVersion: config.kubernetesVersion,
    bundleManifest: manifestBytes,
    podSubnet: config.networking.podSubnet,
    serviceSubnet: config.networking.serviceSubnet,
    apiServerSans: config.apiServer.extraSans,
    nodeName: config.firstNode.name ?? '',
    singleNode,
    kubernetesAdminCsr: await createCertificateRequest(adminKeyPem, 'kubernetes-admin'),
    ownerCsr: await createCertificateRequest(ownerKey.keyPem, 'cluster-owner'),
    clusterUnlockKey: deriveKey(masterSecret, { kind: 'cluster-unlock' }, DISK_SHARES_BYTES).reveal(),
    configuration,
    ownerDocuments: signInitialDocuments({
      ...{ clusterId, epoch, ownerKey, configuration, machine, singleNode, sharedKeys, nowMs },
      settings: settingsBytes(config, manifestBytes, configuration),
    }),
  });
  const initId = initIdFrom(masterSecret);
  return { initId, requestHash: requestHashOf(config, manifestBytes), spec, adminKeyPem };
}

/** The canonical JSON of the settings record that the first node makes of this request. */
function settingsBytes(config: ClusterConfig, manifest: Uint8Array, configuration: Buffer): Uint8Array {
  const settings = clusterSettingsFrom({
    clusterName: config.name,
    kubernetesVersion: config.kubernetesVersion,
    ...config.networking,
    apiServerSans: config.apiServer.extraSans,
    bundleManifest: Buffer.from(manifest).toString('utf8'),
    configuration: configuration.toString('utf8'),
  });
  return Buffer.from(canonicalJson({ version: 1, ...settings }), 'utf8');
}

/** The request in the form of the state file. */
export function requestToState(request: InitRequest): NonNullable<InitState['request']> {
  return {
    specBase64: Buffer.from(toBinary(ClusterSpecSchema, request.spec)).toString('base64'),
    adminKeyPem: request.adminKeyPem.reveal(),
  };
}

/** The saved request, byte for byte: new certificate requests would differ from those that were sent. */
export function requestFromState(init: InitState): InitRequest | undefined {
  if (init.request === undefined) return undefined;
  return {
    initId: init.id,
    requestHash: init.requestHash,
    spec: fromBinary(ClusterSpecSchema, Buffer.from(init.request.specBase64, 'base64')),
    adminKeyPem: new Secret(init.request.adminKeyPem),
  };
}
