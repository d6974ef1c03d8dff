import type { Provisioning } from '../../internal/config/index.ts';
import { hostOf, parseEndpoint, PORTS } from '../../internal/endpoint/index.ts';
import { CuratorClient } from '../curatorclient/index.ts';
import type { RoleValues } from '../roleserve/index.ts';
import type { AgentPorts } from './agent-ports.ts';
import type { MachineIdentity, OperatorEndpoints } from '../nodestate/index.ts';

/**
 * This node's way to the curators of its cluster. Where join services were said to be there are curators too: those places
 * are asked when nobody answers whom the cluster has told of.
 */
export function createCuratorClient(
  { clock, log, random }: Pick<AgentPorts, 'clock' | 'log' | 'random'>,
  options: {
    readonly reads: Pick<RoleValues, 'clusterMembership' | 'clusterDirectory' | 'clusterRelays'>;
    readonly identity: Pick<MachineIdentity, 'keyPem'>;
    readonly provisioning: Pick<Provisioning, 'joinEndpoints'>;
    readonly operatorEndpoints: Pick<OperatorEndpoints, 'list'>;
    /** That of all curators unless said. */
    readonly port?: number;
  },
): CuratorClient {
  const { reads, identity, provisioning, operatorEndpoints, port = PORTS.curator } = options;
  return new CuratorClient({
    ...{ reads, clock, random, port },
    keyPem: identity.keyPem,
    relayPort: PORTS.curatorRelay,
    log: log.child('curators'),
    // The newest knowledge first, as it is now: somebody at a terminal may add to it.
    staticHosts: () =>
      [...operatorEndpoints.list, ...provisioning.joinEndpoints]
        .map((text) => parseEndpoint(text, PORTS.join))
        .filter((endpoint) => endpoint !== undefined)
        .map(hostOf),
  });
}
