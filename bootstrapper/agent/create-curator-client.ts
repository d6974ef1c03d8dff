import type { Provisioning } from '../../internal/config/index.ts';
import { hostOf, parseEndpoint, PORTS } from '../../internal/endpoint/index.ts';
import { CuratorClient, type CuratorClientOptions } from '../curatorclient/index.ts';
import type { MachineIdentity, OperatorEndpoints } from '../nodestate/index.ts';

/**
 * Creates the client of curators. Each control plane runs a curator beside its join service, so the client
 * uses the configured join endpoints when no curator in the directory (the cluster's list of control planes)
 * responds.
 */
export function createCuratorClient(
  parts: Pick<CuratorClientOptions, 'clock' | 'log' | 'random' | 'reads'> & {
    readonly identity: Pick<MachineIdentity, 'keyPem'>;
    readonly provisioning: Pick<Provisioning, 'joinEndpoints'>;
    readonly operatorEndpoints: Pick<OperatorEndpoints, 'list'>;
    /** Default: the port of all curators. */
    readonly port?: number;
  },
): CuratorClient {
  const { identity, provisioning, operatorEndpoints, port = PORTS.curator } = parts;
  return new CuratorClient({
    ...{ ...parts, keyPem: identity.keyPem, port, relayPort: PORTS.curatorRelay },
    log: parts.log.child('curators'),
    // Read at each use, because an operator may add endpoints. The newest endpoint comes first.
    staticHosts: () =>
      [...operatorEndpoints.list, ...provisioning.joinEndpoints]
        .map((text) => parseEndpoint(text, PORTS.join))
        .filter((endpoint) => endpoint !== undefined)
        .map(hostOf),
  });
}
