import { map, type Readable } from '../../internal/event/index.ts';
import { launcher, type Plan, type Runnable } from '../../internal/supervisor/index.ts';
import { NodeStreams } from '../../joinservice/curatorproto/gen/streams_pb.js';
import type { AllCurators } from '../curatorclient/index.ts';
import type { Membership } from '../membership/index.ts';
import { runNodeSession } from './node-session.ts';
import type { TaskPorts } from './tasks.ts';

/** Options of the node stream worker. */
export interface NodeStreamOptions {
  readonly reads: { readonly clusterMembership: Readable<Membership | undefined> };
  readonly curators: AllCurators;
  readonly agentVersion: string;
  /** What the streams of this member serve. */
  readonly portsOf: (membership: Membership) => TaskPorts;
}

/** Plans streams for members only, because only they receive requests of operators. Pure. */
export function planNodeStream(membership: Membership | undefined): Plan<Membership> {
  return membership === undefined
    ? { kind: 'wait', why: 'the membership of this node' }
    : { kind: 'start', config: membership };
}

/** Keeps a stream open to every curator, so that the node needs no open port for operators. */
export function nodeStreamWorker(options: NodeStreamOptions): Runnable {
  const { curators, agentVersion, portsOf } = options;
  return launcher({
    input: map(options.reads.clusterMembership, (membership) => ({ membership })),
    plan: ({ membership }) => planNodeStream(membership),
    start: (scope, membership) => {
      const ports = portsOf(membership);
      scope.run('streams', async (streams) => {
        streams.waiting('curator to accept this node');
        let isHealthy = false;
        const onAccepted = (): void => {
          if (!isHealthy) streams.healthy();
          isHealthy = true;
          streams.waiting(undefined);
        };
        await curators.each(
          (curator, signal) =>
            runNodeSession(curator.of(NodeStreams), { agentVersion, ports, onAccepted }, signal),
          streams.signal,
        );
      });
      return Promise.resolve();
    },
  });
}
