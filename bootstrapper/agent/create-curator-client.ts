import type { Provisioning } from '../../internal/config/index.ts';
import { hostOf, parseEndpoint, PORTS } from '../../internal/endpoint/index.ts';
import { CuratorClient } from '../curatorclient/index.ts';
import type { RoleValues } from '../roleserve/index.ts';
import type { AgentPorts } from './agent-ports.ts';
import type { MachineIdentity, OperatorEndpoints } from '../nodestate/index.ts';

/**
 * Creates the client of curators. Each control plane runs a curator beside its join service, so the client
 * uses the configured join endpoints when no curator of the directory responds.
 */
export function createCuratorClient(
  { clock, log, random }: Pick<AgentPorts, 'clock' | 'log' | 'random'>,
  options: {
    readonly reads: Pick<RoleValues, 'clusterMembership' | 'clusterDirectory' | 'clusterRelays'>;
    readonly identity: Pick<MachineIdentity, 'keyPem'>;
    readonly provisioning: Pick<Provisioning, 'joinEndpoints'>;
    readonly operatorEndpoints: Pick<OperatorEndpoints, 'list'>;
    /** Default: the port of all curators. */
    readonly port?: number;
  },
): CuratorClient {
  const { reads, identity, provisioning, operatorEndpoints, port = PORTS.curator } = options;
  return new CuratorClient({
    ...{ reads, clock, random, port },
    keyPem: identity.keyPem,
    relayPort: PORTS.curatorRelay,
    log: log.child('curators'),
    // Read at each use, because an operator may add endpoints. The newest endpoint comes first.
    staticHosts: () =>
      [...operatorEndpoints.list, ...provisioning.joinEndpoints]
        .map((text) => parseEndpoint(text, PORTS.join))
        .filter((endpoint) => endpoint !== undefined)
        .map(hostOf),
  });
}
