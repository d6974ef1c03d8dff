import { parseEndpoint, PORTS } from '../../../internal/endpoint/index.ts';
import { describeError } from '../../../internal/errors/index.ts';
import { localUpgrade, RpcChannel } from '../../../internal/rpc/index.ts';
import type { CommandContext } from '../../app/command.ts';
import { readOwnerKey, type WorkspaceLayout } from '../../workspace/index.ts';
import { ClusterError } from '../errors.ts';
import { refuseNode, translateError } from '../machine/connect-machine.ts';
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

/** Another machine, as the operator specified it. */
export interface RemoteMachine {
  readonly node: string;
  /** Expected fingerprint, "sha256:HEX"; undefined to accept any machine. */
  readonly fingerprint?: string | undefined;
}

/**
 * The agent of another machine, over its init port. The request contains no secret and the cluster decides about the join, so
 * any machine key is accepted unless a fingerprint is given.
 * @throws ClusterError `cluster-join-node-unreachable` for an invalid address
 */
export async function remoteChannel(
  context: CommandContext,
  layout: WorkspaceLayout,
  machine: RemoteMachine,
): Promise<RpcChannel> {
  const endpoint = initEndpointOf(machine);
  const { clock } = context.ports;
  const owner = ownerIssuer(await readOwnerKey(context, layout));
  const upgrade = machineKeyUpgrade({ owner, clock, fingerprint: machine.fingerprint });
  return new RpcChannel({ endpoint, upgrade });
}

/**
 * Why a call on `remoteChannel` failed: another machine responds, or nothing listens at the init port, which a node has
 * closed.
 */
export async function explainRemoteError(machine: RemoteMachine, error: unknown): Promise<unknown> {
  const endpoint = initEndpointOf(machine);
  const translated = translateError({ endpoint, fingerprint: machine.fingerprint }, error);
  if (translated !== error) return translated;
  try {
    await refuseNode(endpoint, error);
  } catch (isNode) {
    return isNode;
  }
  if (!describeError(error).includes('ECONNREFUSED')) return error;
  const text = `machine ${endpoint} does not listen at its init port`;
  return new ClusterError('cluster-init-port-closed', text, { cause: error });
}

function initEndpointOf({ node }: RemoteMachine): string {
  const endpoint = parseEndpoint(node, PORTS.init);
  if (endpoint !== undefined) return endpoint;
  throw new ClusterError('cluster-join-node-unreachable', `invalid address ${JSON.stringify(node)}`);
}
