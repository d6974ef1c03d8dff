/**
 * The signer on a control-plane node: what has the cluster's CA keys has no network (joinservice/signer).
 *
 * The agent hands it the keys as credentials of its unit. Those of Kubernetes come later than etcd's, so the worker that
 * calls `SignerUnit.start` repeats it until all are there, and again when one was replaced.
 */
export {
  ETCD_PROXY_SOCKET,
  SIGNER_STATE_DIRECTORY,
  SIGNER_SOCKET,
  SIGNER_UNIT,
  SIGNER_USER,
  type SignerCluster,
} from './signer-files.ts';
export { SignerUnit, type SignerUnitConfig, type SignerUnitPorts } from './signer-unit.ts';
