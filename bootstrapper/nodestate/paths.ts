/** Where the agent keeps its state. 0700, root only, on the state disk. */
const STATE = '/var/lib/cluster';

export const AGENT_PATHS = {
  state: STATE,
  provisioning: '/etc/cluster/provisioning.json',
  /** `joinEndpoints` that cloud-init or other automation has written, also after the agent was started. */
  cloudInit: '/etc/cluster/join.json',
  /** What AMD and Intel say, as somebody has laid it beside the provisioning. */
  provisionedCollateral: '/etc/cluster/collateral.json',
  machineKey: `${STATE}/machine/key.pem`,
  fingerprint: `${STATE}/machine/fingerprint`,
  keySecret: `${STATE}/machine/attestation-key.sealed`,
  enrolment: `${STATE}/enrolment`,
  lock: `${STATE}/enrolment/lock.json`,
  /** What an admission binds this machine to, from before the lock until the membership is there. */
  join: `${STATE}/enrolment/join.json`,
  /** Where `cluster join` on a machine has said that its cluster is. */
  operatorEndpoints: `${STATE}/enrolment/directed.json`,
  init: `${STATE}/init`,
  events: `${STATE}/init/events.jsonl`,
  membership: `${STATE}/membership/membership.json`,
  roles: `${STATE}/membership/roles.json`,
  settings: `${STATE}/membership/settings.json`,
  directory: `${STATE}/membership/directory.json`,
  relays: `${STATE}/membership/relays.json`,
  collateral: `${STATE}/collateral/collateral.json`,
  recoveryOrder: `${STATE}/recovery/order.json`,
  recoveryFailure: `${STATE}/recovery/failure.txt`,
  resetOrder: `${STATE}/reset/order.json`,
  credentials: `${STATE}/credentials`,
  /** What the join service and the curator answer with; the machine's own key they do not get. */
  curatorKey: `${STATE}/credentials/curator.key`,
  curatorCert: `${STATE}/credentials/curator.crt`,
  ca: `${STATE}/ca`,
  /** The keys that control planes share, of two generations (internal/keyset); not there before the first rotation. */
  rotation: `${STATE}/keys/rotation.json`,
  /** What this node has finished of replacing them. */
  keysStage: `${STATE}/keys/stage.json`,
  etcdData: `${STATE}/etcd-state/data/member`,
  store: `${STATE}/store`,
  /** containerd's. */
  images: '/var/lib/containerd',
  run: '/run/cluster',
} as const;

/** What of replacing the keys of the control planes lies where. */
export const KEY_PATHS = {
  rotation: AGENT_PATHS.rotation,
  stage: AGENT_PATHS.keysStage,
  // The last one to go when the role does.
  lastKey: `${AGENT_PATHS.ca}/ca.key`,
} as const;
