import { basename, dirname, join } from 'node:path';
import type { OwnerVoucher } from '../../../internal/crypto/index.ts';
import type { CommandContext } from '../../app/command.ts';
import { PROGRAM_VERSION } from '../../app/version.ts';
import {
  layoutOf,
  readConfig,
  readIdentity,
  readOwnerKey,
  StateFile,
  type KubernetesEndpoint,
} from '../../workspace/index.ts';
import { ClusterError } from '../errors.ts';
import { newestCertificate, type OperatorCertificate } from './operator-certificate.ts';

/** Who this program is to the cluster: the owner whose workspace it is, or an operator with an own identity. */
export interface Caller extends OperatorCertificate {
  readonly kind: 'owner' | 'operator';
  /** Of the cluster, as far as it is known here. */
  readonly name: string;
  /** As far as it is known here: the cluster knows. */
  readonly isOwner: boolean;
  /** Of owners, from the one who made the cluster on: each for the key of the next one, the last one for this member's. */
  readonly vouchers: readonly OwnerVoucher[];
  /** What an owner's kubeconfig is made of; undefined for others. */
  readonly kubernetes: KubernetesEndpoint | undefined;
  /** Where curators were when the certificate was given. */
  readonly curatorEndpoints: readonly string[];
  /** Where those are kept that were seen since. */
  readonly curatorsPath: string;
  /** Directory for what this identity keeps about the cluster: its checkpoints of the audit, what it applied last. May be missing. */
  readonly directory: string;
}

/**
 * `--identity`, else `identity.json` of the workspace, else the owner of the workspace; with an Ed25519 key, and the newest
 * certificate that is here.
 * @throws ClusterError `cluster-not-initialized`, `cluster-identity-not-granted`
 */
export async function readCaller(context: CommandContext): Promise<Caller> {
  const path = await identityPathOf(context);
  const member = path === undefined ? await ownerOf(context) : await operatorOf(context, path);
  return { ...member, certPem: await newestCertificate(context.ports.files, member) };
}

/** The identity file that counts; undefined where the workspace's owner asks. */
export async function identityPathOf({ paths, ports }: CommandContext): Promise<string | undefined> {
  if (paths.identity !== undefined) return paths.identity;
  const { identity } = layoutOf(paths.workspace);
  return (await ports.files.stat(identity)) === undefined ? undefined : identity;
}

async function operatorOf({ ports }: CommandContext, path: string): Promise<Caller> {
  const { keyPem, grant, name: operator } = await readIdentity(ports.files, path);
  if (grant === undefined)
    throw new ClusterError('cluster-identity-not-granted', `asking as ${operator} (${path})`);
  const { certificatePem: certPem, clusterId, clusterCaPem, curatorEndpoints } = grant;
  const own = join(dirname(path), basename(path, '.json'));
  return {
    kind: 'operator',
    name: '',
    keyPem,
    isOwner: grant.role === 'owner',
    vouchers: (grant.vouchers ?? []).map(({ by, signature }) => ({
      by: bytesFrom(by),
      signature: bytesFrom(signature),
    })),
    kubernetes: grant.kubernetes,
    certPem,
    certPath: `${own}.crt`,
    clusterId,
    clusterCaPem,
    curatorEndpoints,
    curatorsPath: `${own}.curators.json`,
    // Beside the owner's and those of other identities: what one has signed, another would take for forged.
    directory: own,
  };
}

async function ownerOf({ paths, ports }: CommandContext): Promise<Caller> {
  const layout = layoutOf(paths.workspace);
  const { name } = await readConfig(ports.files, layout); // a directory without one is no workspace
  const { value } = await StateFile.read(ports.files, layout, { programVersion: PROGRAM_VERSION });
  const result = value.init?.result;
  if (result === undefined)
    throw new ClusterError('cluster-not-initialized', `${layout.root}: cluster not initialized`);
  const { keyPem } = await readOwnerKey(ports.files, layout);
  const server = `https://${result.apiEndpoints[0] ?? ''}`;
  const { ownerCertPem: certPem, clusterId, clusterCaPem, curatorEndpoints } = result;
  return {
    kind: 'owner',
    name,
    keyPem,
    isOwner: true,
    vouchers: [],
    kubernetes: { clusterName: name, caPem: result.kubernetesCaPem, server },
    certPem,
    certPath: layout.ownerCert,
    clusterId,
    clusterCaPem,
    curatorEndpoints,
    curatorsPath: layout.curators,
    directory: layout.root,
  };
}

function bytesFrom(base64: string): Uint8Array<ArrayBuffer> {
  return new Uint8Array(Buffer.from(base64, 'base64'));
}
