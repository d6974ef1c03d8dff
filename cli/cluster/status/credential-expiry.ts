import { formatExpiry } from '../../../internal/clock/index.ts';
import { certificateTimesOf } from '../../../internal/pki/index.ts';
import type { CommandContext } from '../../app/command.ts';
import { layoutOf } from '../../workspace/index.ts';
import { readCaller } from '../curator/caller.ts';
import { readKubeAccess } from '../kubeconfig/kubeconfig-file.ts';

/** When the credentials of the caller expire, in ms since the epoch. */
export interface CredentialExpiry {
  /** The certificate for curators. */
  readonly certificateMs: number;
  /** The kubeconfig; undefined when the workspace has none that can be read. */
  readonly kubeconfigMs: number | undefined;
}

/** @throws ClusterError `cluster-not-initialized`, `cluster-identity-not-granted` */
export async function readCredentialExpiry(context: CommandContext): Promise<CredentialExpiry> {
  const { certPem } = await readCaller(context);
  return { certificateMs: endOf(certPem), kubeconfigMs: await kubeconfigEnd(context) };
}

/** "certificate expires in 364d, kubeconfig expires in 364d" */
export function describeCredentials(
  { certificateMs, kubeconfigMs }: CredentialExpiry,
  nowMs: number,
): string {
  const certificate = `certificate ${formatExpiry(certificateMs, nowMs)}`;
  if (kubeconfigMs === undefined) return certificate;
  return `${certificate}, kubeconfig ${formatExpiry(kubeconfigMs, nowMs)}`;
}

async function kubeconfigEnd({ ports, paths }: CommandContext): Promise<number | undefined> {
  try {
    return endOf((await readKubeAccess(ports.files, layoutOf(paths.workspace))).certPem);
  } catch {
    return undefined; // the part of the status about Kubernetes shows the reason
  }
}

function endOf(certPem: string): number {
  return certificateTimesOf(certPem).notAfterMs;
}
