import { hostFrom, type Provisioning } from '../../internal/config/index.ts';
import { CuratorClient } from '../curatorclient/index.ts';
import { CURATOR_PORT, RELAY_PORTS } from '../units/index.ts';
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
  const { reads, identity, provisioning, operatorEndpoints, port = CURATOR_PORT } = options;
  return new CuratorClient({
    ...{ reads, clock, random, port },
    keyPem: identity.keyPem,
    relayPort: RELAY_PORTS.curator,
    log: log.child('curators'),
    // The newest knowledge first, as it is now: somebody at a terminal may add to it.
    staticHosts: () =>
      [...operatorEndpoints.list, ...provisioning.joinEndpoints]
        .map(hostFrom)
        .filter((host) => host !== undefined),
  });
}
