import { currentValue } from '../../internal/event/index.ts';
import {
  JOINSERVICE_USER,
  SIGNER_STATE_DIRECTORY,
  type SignerCluster,
  SignerUnit,
  type SignerUnitPorts,
} from '../units/index.ts';
import { consensusLayout } from '../consensus/index.ts';
import { CONTROL_PLANE_KEY_FILES, OPTIONAL_KEY_FILES } from '../kubernetes/index.ts';
import type { RoleValues, SignerDriver } from '../roleserve/index.ts';
import { AGENT_PATHS } from '../nodestate/index.ts';

const SIGNER_COMMAND = [
  '/usr/lib/cluster/node',
  '--optimize-for-size',
  '--no-maglev',
  '--max-semi-space-size=1',
  '--gc-memory-reducer-start-delay-ms=30000',
  '/usr/lib/cluster/signer.mjs',
] as const;

/** Driver of the signer on this machine, with every key of its control plane. */
export function signerDriver(
  ports: SignerUnitPorts & { readonly cluster: () => SignerCluster },
): SignerDriver {
  const unit = new SignerUnit(ports);
  const { caFile, certFile, keyFile } = consensusLayout(AGENT_PATHS.state, 'state').user('signer');
  const config = {
    command: SIGNER_COMMAND,
    configFile: '/etc/cluster/signer.json',
    stateDir: AGENT_PATHS.state,
    joinserviceUser: JOINSERVICE_USER,
    etcd: { caFile, certFile, keyFile },
    keys: CONTROL_PLANE_KEY_FILES,
    optionalKeys: OPTIONAL_KEY_FILES,
  };
  return {
    start: (signal) => unit.start({ ...config, cluster: ports.cluster() }, signal),
    stop: async (signal) => {
      await unit.stop(signal);
      // Deletes the minimum versions that the signer has saved: the owner's next grant sets them again.
      await ports.files.remove(SIGNER_STATE_DIRECTORY);
    },
  };
}

/**
 * Facts for the signer from the provisioning and the membership of this machine. The signer must not read
 * them from etcd.
 */
export function signerClusterOf({
  ownerKeys,
  values,
}: {
  readonly ownerKeys: readonly Uint8Array[];
  readonly values: Pick<RoleValues, 'clusterMembership' | 'clusterSettings'>;
}): SignerCluster {
  const [membership, settings] = [
    currentValue(values.clusterMembership),
    currentValue(values.clusterSettings),
  ];
  if (membership === undefined || settings === undefined)
    throw new TypeError('membership and cluster settings expected');
  const { clusterId, epoch, nodeId, nodeName, nodeAddress } = membership;
  const { serviceSubnet, podSubnet, apiServerSans, apiEndpoint } = settings;
  return {
    ...{ clusterId, epoch },
    ownerKeys: ownerKeys.map((key) => Buffer.from(key).toString('base64')),
    own: { nodeId, name: nodeName, address: nodeAddress },
    networks: {
      ...{ serviceSubnet, podSubnet, apiServerSans },
      ...(apiEndpoint === undefined ? {} : { apiEndpoint }),
    },
  };
}
