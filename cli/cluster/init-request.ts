import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { createHash, randomUUID } from 'node:crypto';
import { ClusterSpecSchema, type ClusterSpec } from '../../initproto/gen/init_pb.js';
import { canonicalJson, clusterPartOf, type ClusterConfig } from '../../internal/config/index.ts';
import { deriveKey, type MasterSecret } from '../../internal/crypto/index.ts';
import { createRequest, generateKeyPem } from '../../internal/pki/index.ts';
import { Secret } from '../../internal/secret/index.ts';
import type { InitState, OwnerKey } from '../workspace/index.ts';

const CLUSTER_ID_BYTES = 16;
const UNLOCK_KEY_BYTES = 32;

/** A request to create a cluster, as it is saved before it is sent. */
export interface InitRequest {
  readonly initId: string;
  /** Of what the operator asked for: the same configuration gives the same hash. */
  readonly requestHash: string;
  readonly spec: ClusterSpec;
  /** The key that kubectl will use; it never leaves the workstation. */
  readonly adminKeyPem: Secret<string>;
}

/** 32 hex digits, always the same for one master secret. */
export function clusterIdFrom(masterSecret: MasterSecret): string {
  const id = deriveKey(masterSecret, { kind: 'cluster-id' }, CLUSTER_ID_BYTES);
  return Buffer.from(id.reveal()).toString('hex');
}

/** Everything that decides what is made. The manifest's bytes are part of it: they name every component by hash. */
export function requestHashOf(config: ClusterConfig, manifestBytes: Uint8Array): string {
  return createHash('sha256')
    .update(canonicalJson(clusterPartOf(config)))
    .update('\0')
    .update(manifestBytes)
    .digest('hex');
}

/** A new request under a new id. */
export async function createInitRequest(options: {
  readonly config: ClusterConfig;
  readonly masterSecret: MasterSecret;
  readonly ownerKey: OwnerKey;
  readonly manifestBytes: Uint8Array;
}): Promise<InitRequest> {
  const { config, masterSecret, ownerKey, manifestBytes } = options;
  const adminKeyPem = generateKeyPem();
  const spec = create(ClusterSpecSchema, {
    clusterName: config.name,
    clusterId: clusterIdFrom(masterSecret),
    kubernetesVersion: config.kubernetesVersion,
    bundleManifest: manifestBytes,
    podSubnet: config.networking.podSubnet,
    serviceSubnet: config.networking.serviceSubnet,
    apiServerSans: config.apiServer.extraSans,
    nodeName: config.firstNode.name ?? '',
    singleNode: config.firstNode.runsWorkloads,
    kubernetesAdminCsr: await createRequest(adminKeyPem, 'kubernetes-admin'),
    ownerCsr: await createRequest(ownerKey.keyPem, 'cluster-owner'),
    clusterUnlockKey: deriveKey(masterSecret, { kind: 'cluster-unlock' }, UNLOCK_KEY_BYTES).reveal(),
    configuration: Buffer.from(canonicalJson(clusterPartOf(config)), 'utf8'),
  });
  return { initId: randomUUID(), requestHash: requestHashOf(config, manifestBytes), spec, adminKeyPem };
}

/** The request as it goes into the state file. */
export function savedRequest(request: InitRequest): NonNullable<InitState['request']> {
  return {
    specBase64: Buffer.from(toBinary(ClusterSpecSchema, request.spec)).toString('base64'),
    adminKeyPem: request.adminKeyPem.reveal(),
  };
}

/** A saved request, to the byte: a certificate request signed anew would be another one. */
export function restoredRequest(init: InitState): InitRequest | undefined {
  if (init.request === undefined) return undefined;
  return {
    initId: init.id,
    requestHash: init.requestHash,
    spec: fromBinary(ClusterSpecSchema, Buffer.from(init.request.specBase64, 'base64')),
    adminKeyPem: new Secret(init.request.adminKeyPem),
  };
}
