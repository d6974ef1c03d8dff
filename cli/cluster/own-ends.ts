import { certificateTimesOf } from '../../internal/pki/index.ts';
import type { CommandContext } from '../app/command.ts';
import { formatDuration } from '../host/index.ts';
import { layoutOf } from '../workspace/index.ts';
import { readAccess } from './keep-result.ts';
import { readMember } from './member.ts';

/** Until when what the caller shows is good. */
export interface OwnEnds {
  /** To curators. */
  readonly certificateMs: number;
  /** To the API server; undefined where the workspace has none that can be read. */
  readonly kubeconfigMs: number | undefined;
}

export async function readOwnEnds(context: CommandContext): Promise<OwnEnds> {
  const { certPem } = await readMember(context);
  return { certificateMs: endOf(certPem), kubeconfigMs: await kubeconfigEnd(context) };
}

export function ownEndsLine({ certificateMs, kubeconfigMs }: OwnEnds, nowMs: number): readonly string[] {
  const parts = [
    `certificate ${leftText(certificateMs - nowMs)}`,
    ...(kubeconfigMs === undefined ? [] : [`kubeconfig ${leftText(kubeconfigMs - nowMs)}`]),
  ];
  return [`yours       ${parts.join(', ')}`];
}

async function kubeconfigEnd({ ports, paths }: CommandContext): Promise<number | undefined> {
  try {
    return endOf((await readAccess(ports.files, layoutOf(paths.workspace))).certPem);
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
