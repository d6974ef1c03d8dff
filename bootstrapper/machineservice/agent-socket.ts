import { untilAborted } from '../../internal/cleanup/index.ts';
import type { FilePort } from '../../internal/file/index.ts';
import { implement, localUpgrade, RpcServer, type LocalPeer } from '../../internal/rpc/index.ts';
import type { Runnable } from '../../internal/supervisor/index.ts';
import { Machine } from '../../initproto/gen/machine_pb.js';
import { machineHandlers, type MachineServicePorts } from './machine-handlers.ts';

/** The unit's umask (0077) makes it root's alone. */
export const AGENT_SOCKET = '/run/cluster/agent.sock';
const GRACE_MS = 1_000;

/** Serves root on this machine as long as the agent lives. */
export function agentSocketRunnable(
  path: string,
  ports: MachineServicePorts & { readonly files: FilePort },
): Runnable {
  return async (scope) => {
    const { signal } = scope;
    await using server = new RpcServer<LocalPeer>({
      clock: ports.clock,
      upgrade: localUpgrade,
      services: [implement(Machine, machineHandlers(ports))],
      disclose: 'chain',
      log: scope.log,
    });
    await ports.files.remove(path); // of an agent that was killed
    await server.listenAt(path);
    scope.healthy();
    scope.waiting('questions of this machine’s administrator');
    await untilAborted(signal).finally(() => server.close(GRACE_MS));
  };
}
