import type { Runnable } from '../../internal/supervisor/index.ts';
import { NodeStreams } from '../../joinservice/curatorproto/gen/streams_pb.js';
import type { AllCurators } from '../curatorclient/index.ts';
import type { Membership } from '../membership/index.ts';
import { memberWorker, reportWorking, type RoleValues } from '../roleserve/index.ts';
import { runNodeSession } from './node-session.ts';
import type { TaskPorts } from './tasks.ts';

/** Options of the node stream worker. */
export interface NodeStreamOptions {
  readonly reads: Pick<RoleValues, 'clusterMembership'>;
  readonly curators: AllCurators;
  readonly agentVersion: string;
  /** Ports (injected dependencies) of the tasks that this member serves over its streams. */
  readonly portsOf: (membership: Membership) => TaskPorts;
}

/** Keeps a stream open to every curator, so that the node needs no open port for operators. */
export function nodeStreamWorker(options: NodeStreamOptions): Runnable {
  const { curators, agentVersion, portsOf } = options;
  return memberWorker(options, (scope, membership) => {
    const ports = portsOf(membership);
    scope.run('streams', async (streams) => {
      streams.waiting('curator to accept this node');
      const session = { agentVersion, ports, onAccepted: reportWorking(streams) };
      await curators.each(
        (curator, signal) => runNodeSession(curator.of(NodeStreams), session, signal),
        streams.signal,
      );
    });
  });
}
