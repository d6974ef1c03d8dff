import { map, type Readable } from '../../internal/event/index.ts';
import { launcher, type Plan, type Runnable } from '../../internal/supervisor/index.ts';
import { NodeStreams } from '../../joinservice/curatorproto/gen/streams_pb.js';
import type { AllCurators } from '../curatorclient/index.ts';
import type { Membership } from '../membership/index.ts';
import { runNodeSession } from './node-session.ts';
import type { TaskPorts } from './tasks.ts';

export interface NodeStreamOptions {
  readonly reads: { readonly clusterMembership: Readable<Membership | undefined> };
  readonly curators: AllCurators;
  readonly agentVersion: string;
  /** What this node can be asked, as the member that it is. */
  readonly portsOf: (membership: Membership) => TaskPorts;
}

/** Only members are asked anything. */
export function planNodeStream(membership: Membership | undefined): Plan<Membership> {
  return membership === undefined
    ? { kind: 'wait', why: 'the membership of this node' }
    : { kind: 'start', config: membership };
}

/** Holds a stream open to every curator: this node listens on nothing for operators, and whichever they ask finds it. */
export function nodeStreamWorker(options: NodeStreamOptions): Runnable {
  const { curators, agentVersion, portsOf } = options;
  return launcher({
    input: map(options.reads.clusterMembership, (membership) => ({ membership })),
    plan: ({ membership }) => planNodeStream(membership),
    start: (scope, membership) => {
      const ports = portsOf(membership);
      scope.run('streams', async (streams) => {
        streams.waiting('a curator that takes this node in');
        let isHealthy = false;
        const onTaken = (): void => {
          if (!isHealthy) streams.healthy();
          isHealthy = true;
          streams.waiting(undefined);
        };
        await curators.each(
          (curator, signal) =>
            runNodeSession(curator.of(NodeStreams), { agentVersion, ports, onAccepted: onTaken }, signal),
          streams.signal,
        );
      });
      return Promise.resolve();
    },
  });
}
