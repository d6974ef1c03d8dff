import type { CommandRunner } from '../../internal/exec/index.ts';
import { PATHS } from './settings.ts';

const KUBECTL_MS = 15_000;

interface KubectlOptions {
  /** Standard input. */
  readonly input?: string;
  /** Time limit. Default: 15 s. */
  readonly timeoutMs?: number;
}

/** Runs kubectl as the administrator of this control plane; only control planes have admin.conf. @returns its output */
export async function kubectl(
  commands: CommandRunner,
  args: readonly string[],
  signal: AbortSignal,
  { timeoutMs = KUBECTL_MS, ...standardInput }: KubectlOptions = {},
): Promise<string> {
  const argv = [`${PATHS.bin}/kubectl`, '--kubeconfig', PATHS.adminConf, ...args] as const;
  const env = { KUBECACHEDIR: PATHS.kubectlCache };
  return (await commands.run({ argv, env, ...standardInput, timeoutMs, signal })).stdout;
}
