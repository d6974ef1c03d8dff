import { untilAborted } from '../../internal/cleanup/index.ts';
import type { Clock } from '../../internal/clock/index.ts';
import type { CodedError } from '../../internal/errors/index.ts';
import type { FilePort } from '../../internal/file/index.ts';
import {
  implement,
  localUpgrade,
  RpcServer,
  type Handlers,
  type LocalPeer,
} from '../../internal/rpc/index.ts';
import type { Runnable } from '../../internal/supervisor/index.ts';
import { Machine } from '../../initproto/gen/machine_pb.js';
import { machineHandlers, refusingHandlers, type MachineServicePorts } from './machine-handlers.ts';

/** Only root can connect: the unit has umask 0077. */
export const AGENT_SOCKET = '/run/cluster/agent.sock';
const GRACE_MS = 1_000;

/** Serves the Machine contract to root on this machine while the agent runs. */
export function agentSocketRunnable(path: string, ports: MachineServicePorts & SocketPorts): Runnable {
  return socketRunnable(path, ports, machineHandlers(ports));
}

/** Refuses every call of the Machine contract with this reason, while the agent runs. */
export function refusingSocketRunnable(
  path: string,
  ports: SocketPorts & { readonly reason: CodedError },
): Runnable {
  return socketRunnable(path, ports, refusingHandlers(ports.reason));
}

interface SocketPorts {
  readonly files: FilePort;
  readonly clock: Clock;
}

function socketRunnable(
  path: string,
  ports: SocketPorts,
  handlers: Handlers<typeof Machine, unknown>,
): Runnable {
  return async (scope) => {
    const { signal } = scope;
    await using server = new RpcServer<LocalPeer>({
      clock: ports.clock,
      upgrade: localUpgrade,
      services: [implement(Machine, handlers)],
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
