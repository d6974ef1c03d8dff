import { formatDuration } from '../../../internal/clock/index.ts';
import { certificateTimesOf } from '../../../internal/pki/index.ts';
import type { CommandContext } from '../../app/command.ts';
import { layoutOf } from '../../workspace/index.ts';
import { readKubeAccess } from '../kubeconfig/kubeconfig-file.ts';
import { readCaller } from '../curator/caller.ts';

/** Until when what the caller shows is good. */
export interface CredentialExpiry {
  /** To curators. */
  readonly certificateMs: number;
  /** To the API server; undefined where the workspace has none that can be read. */
  readonly kubeconfigMs: number | undefined;
}

export async function readCredentialExpiry(context: CommandContext): Promise<CredentialExpiry> {
  const { certPem } = await readCaller(context);
  return { certificateMs: endOf(certPem), kubeconfigMs: await kubeconfigEnd(context) };
}

export function credentialExpiryLine(
  { certificateMs, kubeconfigMs }: CredentialExpiry,
  nowMs: number,
): readonly string[] {
  const parts = [
    `certificate ${leftText(certificateMs - nowMs)}`,
    ...(kubeconfigMs === undefined ? [] : [`kubeconfig ${leftText(kubeconfigMs - nowMs)}`]),
  ];
  return [`yours       ${parts.join(', ')}`];
}

async function kubeconfigEnd({ ports, paths }: CommandContext): Promise<number | undefined> {
  try {
    return endOf((await readKubeAccess(ports.files, layoutOf(paths.workspace))).certPem);
  } catch {
    return undefined; // why not, the part on Kubernetes says
  }
}

function endOf(certPem: string): number {
  return certificateTimesOf(certPem).notAfterMs;
}

function leftText(leftMs: number): string {
  return leftMs > 0 ? `for ${formatDuration(leftMs)}` : 'has run out';
}
