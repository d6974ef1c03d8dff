import type { CommandRunner } from '../../internal/exec/index.ts';
import { PATHS } from './settings.ts';

const KUBECTL_MS = 15_000;

/**
 * Runs kubectl as the administrator of this control plane; only control planes have admin.conf. @param input
 * its standard input @returns its output
 */
export async function kubectl(
  commands: CommandRunner,
  args: readonly string[],
  signal: AbortSignal,
  input?: string,
): Promise<string> {
  const argv = [`${PATHS.bin}/kubectl`, '--kubeconfig', PATHS.adminConf, ...args] as const;
  const env = { KUBECACHEDIR: PATHS.kubectlCache };
  const standardInput = input === undefined ? {} : { input };
  return (await commands.run({ argv, env, ...standardInput, timeoutMs: KUBECTL_MS, signal })).stdout;
}
