import type { CommandContext } from '../app/command.ts';
import { callCurator } from '../cluster/index.ts';

/** `cluster node metrics`: prints the metrics of a node's programs in the Prometheus text format. */
export async function runNodeMetrics(context: CommandContext, name: string): Promise<void> {
  const { text } = await callCurator(context, ({ nodeStreams }) =>
    nodeStreams.getMetrics({ node: name }, { timeoutMs: 30_000 }),
  );
  context.host.result({ node: name, text }, () => text.trimEnd());
}
