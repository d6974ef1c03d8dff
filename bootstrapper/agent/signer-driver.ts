import { JOINSERVICE_USER } from '../curatorunit/index.ts';
import { consensusLayout } from '../consensus/index.ts';
import { CONTROL_PLANE_KEY_FILES, OPTIONAL_KEY_FILES } from '../kubernetes/index.ts';
import type { SignerDriver } from '../roleserve/index.ts';
import { SignerUnit, type SignerUnitPorts } from '../signerunit/index.ts';
import { PLACES } from './places.ts';

const SIGNER_COMMAND = [
  '/usr/lib/cluster/node',
  '--optimize-for-size',
  '--no-maglev',
  '--max-semi-space-size=1',
  '--gc-memory-reducer-start-delay-ms=30000',
  '/usr/lib/cluster/signer.mjs',
] as const;

/** The signer of this machine, with every key that its control plane has. */
export function signerDriver(ports: SignerUnitPorts): SignerDriver {
  const unit = new SignerUnit(ports);
  const { caFile, certFile, keyFile } = consensusLayout(PLACES.state, 'state').user('signer');
  const config = {
    command: SIGNER_COMMAND,
    configFile: '/etc/cluster/signer.json',
    stateDir: PLACES.state,
    joinserviceUser: JOINSERVICE_USER,
    etcd: { caFile, certFile, keyFile },
    keys: CONTROL_PLANE_KEY_FILES,
    optionalKeys: OPTIONAL_KEY_FILES,
  };
  return { start: (signal) => unit.start(config, signal), stop: (signal) => unit.stop(signal) };
}
