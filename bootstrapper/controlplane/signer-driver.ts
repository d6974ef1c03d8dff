import { currentValue } from '../../internal/event/index.ts';
import {
  SIGNER_STATE_DIRECTORY,
  type SignerCluster,
  SignerUnit,
  type SignerUnitPorts,
} from '../units/index.ts';
import { consensusLayout } from '../consensus/index.ts';
import { CONTROL_PLANE_KEY_FILES, OPTIONAL_KEY_FILES } from '../kubernetes/index.ts';
import type { RoleValues, SignerDriver } from '../roleserve/index.ts';
import { AGENT_PATHS } from '../nodestate/index.ts';
import type { RollbackGuard } from '../rollback/index.ts';

/**
 * The facts about the cluster that the signer needs: the owner keys in the provisioning, the membership and the
 * settings.
 */
interface SignerFacts {
  readonly ownerKeys: readonly Uint8Array[];
  readonly values: Pick<RoleValues, 'clusterMembership' | 'clusterSettings'>;
  readonly rollback: Pick<RollbackGuard, 'signedAfterMs' | 'forgetSigner'>;
}

/** Runs the signer on this machine and gives it the keys of this control plane. */
export function signerDriver(ports: SignerUnitPorts, facts: SignerFacts): SignerDriver {
  const unit = new SignerUnit(ports);
  const { caFile, certFile, keyFile } = consensusLayout(AGENT_PATHS.state, 'state').user('signer');
  const config = {
    stateDir: AGENT_PATHS.state,
    etcd: { caFile, certFile, keyFile },
    keys: CONTROL_PLANE_KEY_FILES,
    optionalKeys: OPTIONAL_KEY_FILES,
  };
  return {
    start: (signal) => unit.start({ ...config, cluster: clusterOf(facts) }, signal),
    stop: async (signal) => {
      await unit.stop(signal);
      // Deletes the minimum versions of owner documents that the signer has saved. The next document that an owner
      // signs sets them again.
      await facts.rollback.forgetSigner(() => ports.files.remove(SIGNER_STATE_DIRECTORY));
    },
  };
}

/**
 * Facts for the signer from the provisioning and the membership of this machine. The signer must not read
 * them from etcd.
 */
function clusterOf({ ownerKeys, values, rollback }: SignerFacts): SignerCluster {
  const membership = currentValue(values.clusterMembership);
  const settings = currentValue(values.clusterSettings);
  if (membership === undefined || settings === undefined)
    throw new TypeError('membership and cluster settings expected');
  const { clusterId, epoch, nodeId, nodeName, nodeAddress } = membership;
  const { serviceSubnet, podSubnet, apiServerSans, apiEndpoint } = settings;
  const { signedAfterMs } = rollback;
  return {
    ...{ clusterId, epoch },
    ...(signedAfterMs === undefined ? {} : { signedAfterMs }),
    ownerKeys: ownerKeys.map((key) => Buffer.from(key).toString('base64')),
    own: { nodeId, name: nodeName, address: nodeAddress },
    networks: {
      ...{ serviceSubnet, podSubnet, apiServerSans },
      ...(apiEndpoint === undefined ? {} : { apiEndpoint }),
    },
  };
}
