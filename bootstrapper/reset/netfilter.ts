import type { StopPorts } from './stop-units.ts';

const COMMAND_MS = 30_000;
/** Chains of kube-proxy and the kubelet, of CNI plugins, and of flannel. */
const CLUSTER_CHAIN = /^(KUBE|CNI|FLANNEL)-/;

/** Deletes the chains of the cluster, and the rules that lead to them. Rules of others stay. May be repeated. */
export async function deleteNetfilterRules(
  { commands, log }: Pick<StopPorts, 'commands' | 'log'>,
  signal: AbortSignal,
): Promise<void> {
  for (const family of ['iptables', 'ip6tables']) {
    try {
      const { stdout } = await commands.run({ argv: [`${family}-save`], timeoutMs: COMMAND_MS, signal });
      const input = deletionOf(stdout);
      if (input === '') continue;
      const argv = [`${family}-restore`, '--noflush', '--wait=10'] as const;
      await commands.run({ argv: [...argv], input, timeoutMs: COMMAND_MS, signal });
    } catch (error) {
      signal.throwIfAborted();
      log.warn('cannot delete the netfilter rules of the cluster, continuing', { family, error });
    }
  }
}

/**
 * The input of iptables-restore(8) that deletes the chains of the cluster; empty if there are none. Pure.
 * @param saved output of iptables-save(8)
 */
export function deletionOf(saved: string): string {
  return saved
    .split(/^(?=\*)/m)
    .map(deletionOfTable)
    .join('');
}

function deletionOfTable(table: string): string {
  const [name = '', ...lines] = table.split('\n');
  if (!name.startsWith('*')) return '';
  const chains = lines
    .filter((line) => line.startsWith(':'))
    .map((line) => line.slice(1).split(' ')[0] ?? '')
    .filter((chain) => CLUSTER_CHAIN.test(chain));
  const jumps = lines.filter(
    (line) => /^-A (?!(KUBE|CNI|FLANNEL)-)/.test(line) && /(-j|-g) (KUBE|CNI|FLANNEL)-/.test(line),
  );
  if (chains.length === 0 && jumps.length === 0) return '';
  return [
    name,
    // A declaration empties a chain, so that no rule leads to a chain that is deleted next.
    ...chains.map((chain) => `:${chain} - [0:0]`),
    ...jumps.map((line) => line.replace('-A', '-D')),
    ...chains.map((chain) => `-X ${chain}`),
    'COMMIT',
    '',
  ].join('\n');
}
