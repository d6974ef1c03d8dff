import type { Backup } from '../../../joinservice/curatorproto/gen/operatorapi_pb.js';
import { NodeRole, type Node } from '../../../joinservice/curatorproto/gen/curator_pb.js';
import { counted } from '../../../internal/printable/index.ts';
import type { CommandContext } from '../../app/command.ts';
import { callCurator } from '../../cluster/index.ts';

/** The scheduled backups that are lost with a control plane; empty if it keeps none. */
export async function lossesOfBackups(
  context: CommandContext,
  { nodeId, roles }: Pick<Node, 'nodeId' | 'roles'>,
): Promise<readonly string[]> {
  if (!roles.includes(NodeRole.CONSENSUS_MEMBER)) return [];
  const { backups } = await callCurator(context, ({ operatorApi }) => operatorApi.listBackups({}));
  const own = backups.filter((each) => each.nodeId === nodeId);
  if (own.length === 0) return [];
  const proved = backups.filter(({ provedMs }) => provedMs > 0n).toSorted((a, b) => Number(b.seq - a.seq));
  return [`the ${counted(own.length, 'backup')} on its disk${whichOf(proved, nodeId)}`];
}

/** @param proved the proved backups of the cluster, newest first */
function whichOf(proved: readonly Pick<Backup, 'nodeId'>[], nodeId: string): string {
  const others = proved.filter((each) => each.nodeId !== nodeId);
  if (proved.length > others.length && others.length === 0)
    return ', and with them every proved backup that the control planes keep: fetch one first (`cluster backup fetch`)';
  return proved[0]?.nodeId === nodeId ? ', among them the newest one that was proved' : '';
}
