import { basename, dirname, join } from 'node:path';
import { certificateSha256, ed25519PubKeyFrom, type OwnerVoucher } from '../../../internal/crypto/index.ts';
import type { KnownClusterCa } from '../../../internal/keyset/index.ts';
import type { CommandContext } from '../../app/command.ts';
import {
  layoutOf,
  readConfig,
  readIdentity,
  readOwnerKey,
  requireConfig,
  StateFile,
  type KubernetesEndpoint,
} from '../../workspace/index.ts';
import { ClusterError } from '../errors.ts';
import { readWorkspaceCa, type CaFile, type WorkspaceCa } from './known-ca.ts';
import { newestCertificate, type OperatorCertificate } from './operator-certificate.ts';

/** The identity that this program uses towards the cluster: the owner of the workspace, or an operator. */
export interface Caller extends OperatorCertificate {
  readonly kind: 'owner' | 'operator';
  /** Raw Ed25519 public key, 32 bytes, as provisioning files contain it. */
  readonly pubKey: Uint8Array;
  /**
   * Reads the name of the cluster, which few commands need: validating cluster.yaml takes a sixth of the time of `node ls`. Empty for an
   * operator whose grant was made by a version without kubeconfigs for this role.
   */
  readonly readName: () => Promise<string>;
  /** Whether the workspace or the grant lists the caller as an owner. Only a hint: the cluster decides. */
  readonly isOwner: boolean;
  /** Chain of owners from the one who created the cluster: each vouches for the key of the next, the last for this caller. */
  readonly vouchers: readonly OwnerVoucher[];
  /**
   * Endpoint and CA for the kubeconfig; undefined if the grant was made by a version without kubeconfigs for this role.
   */
  readonly kubernetes: Omit<KubernetesEndpoint, 'clusterName'> | undefined;
  /** The CA of the cluster that this caller trusts, and the owners whose signature can replace it. */
  readonly ca: WorkspaceCa;
  readonly caFile: CaFile;
  /**
   * Raw Ed25519 keys of the first owners; [] for an operator whose grant was made by a version that could not replace
   * the CA.
   */
  readonly ownerKeys: readonly Uint8Array[];
  /** Documents of an earlier epoch of the cluster are refused. */
  readonly epoch: number;
  /** "host:port" of the curators when the certificate was issued. */
  readonly curatorEndpoints: readonly string[];
  /** Path of the file with the curators seen after the certificate was issued. */
  readonly curatorsPath: string;
  /** Directory for files of this identity, such as audit checkpoints and the last applied configuration. May not exist yet. */
  readonly directory: string;
}

/**
 * The caller is `--identity`, else `identity.json` of the workspace, else the owner of the workspace. It has an Ed25519 key and
 * the newest certificate that is stored here.
 * @throws ClusterError `cluster-not-initialized`, `cluster-identity-not-granted`
 */
export async function readCaller(context: CommandContext): Promise<Caller> {
  const { files } = context.ports;
  const path = await identityPathOf(context);
  const stored = path === undefined ? await ownerOf(context) : await operatorOf(context, path);
  const { firstCa, caFile } = stored;
  const ca = await readWorkspaceCa(files, caFile, firstCa);
  const kubernetes = stored.kubernetes && {
    ...stored.kubernetes,
    caPem: ca.kubernetesCaPem ?? stored.kubernetes.caPem,
  };
  const caller = { ...stored, ca, clusterCaPem: ca.trustedPem, kubernetes };
  const pubKey = ed25519PubKeyFrom(caller.keyPem);
  if (pubKey === undefined) throw new TypeError('the key of a caller is an Ed25519 key'); // the function that read the key has checked this
  // Owners can verify what they have signed themselves.
  const ownerKeys = caller.isOwner ? [...caller.ownerKeys, pubKey] : caller.ownerKeys;
  return { ...caller, pubKey, ownerKeys, certPem: await newestCertificate(files, caller) };
}

/** Path of the identity file in use; undefined when the caller is the owner of the workspace. */
export async function identityPathOf({ paths, ports }: CommandContext): Promise<string | undefined> {
  if (paths.identity !== undefined) return paths.identity;
  const { identity } = layoutOf(paths.workspace);
  return (await ports.files.stat(identity)) === undefined ? undefined : identity;
}

/** A caller as its files describe it. */
type StoredCaller = Omit<Caller, 'pubKey' | 'ca' | 'clusterCaPem'> & {
  /** The CA of the init or of the grant. */
  readonly firstCa: KnownClusterCa & { readonly trustedPem: string };
};

async function operatorOf(context: CommandContext, path: string): Promise<StoredCaller> {
  const { keyPem, grant, name: operator } = await readIdentity(context, path);
  if (grant === undefined)
    throw new ClusterError('cluster-identity-not-granted', `operator ${operator} has no grant (${path})`);
  const { certificatePem: certPem, clusterId, clusterCaPem, curatorEndpoints } = grant;
  const own = join(dirname(path), basename(path, '.json'));
  const vouchers = (grant.vouchers ?? []).map(({ by, signature }) => ({
    by: bytesFrom(by),
    signature: bytesFrom(signature),
  }));
  return {
    kind: 'operator',
    readName: () => Promise.resolve(grant.kubernetes?.clusterName ?? ''),
    keyPem,
    isOwner: grant.role === 'owner',
    vouchers,
    kubernetes: grant.kubernetes,
    certPem,
    certPath: `${own}.crt`,
    clusterId,
    firstCa: { trustedPem: clusterCaPem, generation: grant.clusterCaGeneration ?? 1 },
    caFile: { path: `${own}.cluster-ca.json`, of: certificateSha256(certPem) },
    ownerKeys: grant.ownerKeys?.map(bytesFrom) ?? vouchers.map(({ by }) => by),
    epoch: 1,
    curatorEndpoints,
    curatorsPath: `${own}.curators.json`,
    // Each identity has its own directory, because audit checkpoints that another identity signed would fail
    // verification.
    directory: own,
  };
}

async function ownerOf(context: CommandContext): Promise<StoredCaller> {
  const { paths, ports } = context;
  const layout = layoutOf(paths.workspace);
  await requireConfig(ports.files, layout);
  const { value } = await StateFile.read(ports.files, layout);
  const { init } = value;
  const result = init?.result;
  if (init === undefined || result === undefined)
    throw new ClusterError('cluster-not-initialized', `${layout.root}: cluster not initialized`);
  const { keyPem } = await readOwnerKey(context, layout);
  const server = `https://${result.apiEndpoints[0] ?? ''}`;
  const { ownerCertPem: certPem, clusterId, clusterCaPem, curatorEndpoints } = result;
  return {
    kind: 'owner',
    readName: async () => (await readConfig(ports.files, layout)).name,
    keyPem,
    isOwner: true,
    vouchers: [],
    kubernetes: { caPem: result.kubernetesCaPem, server },
    certPem,
    certPath: layout.ownerCert,
    clusterId,
    firstCa: { trustedPem: clusterCaPem, generation: 1 },
    caFile: { path: layout.clusterCa, of: init.id },
    ownerKeys: [],
    epoch: Number(result.epoch),
    curatorEndpoints,
    curatorsPath: layout.curators,
    directory: layout.root,
  };
}

function bytesFrom(base64: string): Uint8Array<ArrayBuffer> {
  return new Uint8Array(Buffer.from(base64, 'base64'));
}
