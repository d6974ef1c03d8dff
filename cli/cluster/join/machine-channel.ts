import { parseEndpoint, PORTS } from '../../../internal/endpoint/index.ts';
import { localUpgrade, RpcChannel } from '../../../internal/rpc/index.ts';
import type { CommandContext } from '../../app/command.ts';
import { readOwnerKey, type WorkspaceLayout } from '../../workspace/index.ts';
import { ClusterError } from '../errors.ts';
import { machineKeyUpgrade, ownerIssuer } from '../machine/init-session.ts';

/** Socket of the agent, for root only (bootstrapper/machineservice). */
const AGENT_SOCKET = '/run/cluster/agent.sock';

/** The agent of this machine. @throws ClusterError `cluster-join-no-agent` */
export async function localChannel(context: CommandContext): Promise<RpcChannel> {
  const stat = await context.ports.files.stat(AGENT_SOCKET).catch(() => undefined);
  if (stat === undefined)
    throw new ClusterError(
      'cluster-join-no-agent',
      `agent socket ${AGENT_SOCKET} not found, or not accessible for this user`,
    );
  return new RpcChannel({ endpoint: `unix:${AGENT_SOCKET}`, upgrade: localUpgrade });
}

/**
 * The agent of another machine, over its init port. The request contains no secret and the cluster decides about the join, so
 * any machine key is accepted unless a fingerprint is given.
 * @throws ClusterError `cluster-join-node-unreachable` for an invalid address
 */
export async function remoteChannel(
  context: CommandContext,
  layout: WorkspaceLayout,
  machine: { readonly node: string; readonly fingerprint?: string | undefined },
): Promise<RpcChannel> {
  const endpoint = parseEndpoint(machine.node, PORTS.init);
  if (endpoint === undefined) {
    const text = `invalid address ${JSON.stringify(machine.node)}`;
    throw new ClusterError('cluster-join-node-unreachable', text);
  }
  const { clock } = context.ports;
  const owner = ownerIssuer(await readOwnerKey(context, layout));
  const upgrade = machineKeyUpgrade({ owner, clock, fingerprint: machine.fingerprint });
  return new RpcChannel({ endpoint, upgrade });
}
