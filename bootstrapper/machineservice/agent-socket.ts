import { untilAborted } from '../../internal/cleanup/index.ts';
import type { FilePort } from '../../internal/file/index.ts';
import { implement, localUpgrade, RpcServer, type LocalPeer } from '../../internal/rpc/index.ts';
import type { Runnable } from '../../internal/supervisor/index.ts';
import { Machine } from '../../initproto/gen/machine_pb.js';
import { machineHandlers, type MachineServicePorts } from './machine-handlers.ts';

/** Only root can connect: the unit has umask 0077. */
export const AGENT_SOCKET = '/run/cluster/agent.sock';
const GRACE_MS = 1_000;

/** Serves the Machine contract to root on this machine while the agent runs. */
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
    await ports.files.remove(path); // left by an agent that was killed
    await server.listenAt(path);
    scope.healthy();
    scope.waiting('requests of root');
    await untilAborted(signal).finally(() => server.close(GRACE_MS));
  };
}
