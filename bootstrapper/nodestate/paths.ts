import { DISK_SHARES_FILE, ROTATION_FILE } from '../../internal/keyset/index.ts';

/** The agent's state, on the state disk. Mode 0700, root only. */
const STATE = '/var/lib/cluster';

/**
 * Directories with secrets and data of the node: the agent's state and etcd, the keys of the signer, credentials and certificates
 * of Kubernetes, volumes of pods, and images with the writable layers of containers. The state disk has all of them, and the
 * status of the node says how each one is kept. `name` is the directory's name on the state disk.
 */
export const DATA_DIRECTORIES = [
  { name: 'cluster', path: STATE, mode: 0o700 },
  { name: 'signer', path: '/var/lib/cluster-signer', mode: 0o700 },
  { name: 'kubernetes', path: '/etc/kubernetes', mode: 0o755 },
  { name: 'kubelet', path: '/var/lib/kubelet', mode: 0o750 },
  { name: 'containerd', path: '/var/lib/containerd', mode: 0o711 },
] as const;

/** Paths of the agent's files, and of directories whose free space it checks. */
export const AGENT_PATHS = {
  state: STATE,
  provisioning: '/etc/cluster/provisioning.json',
  /** `joinEndpoints` written by cloud-init or other automation, even while the agent runs. */
  cloudInit: '/etc/cluster/join.json',
  /** Certificates and revocation lists of AMD and Intel; an optional file in the directory of the provisioning. */
  provisionedCollateral: '/etc/cluster/collateral.json',
  machineKey: `${STATE}/machine/key.pem`,
  fingerprint: `${STATE}/machine/fingerprint`,
  keySecret: `${STATE}/machine/attestation-key.sealed`,
  /** Hints of this machine's cloud, such as a name (bootstrapper/cloudhints). */
  cloudHints: `${STATE}/machine/cloud-hints.json`,
  enrolment: `${STATE}/enrolment`,
  lock: `${STATE}/enrolment/lock.json`,
  /** The admission of this machine to a cluster, written before the node lock. */
  join: `${STATE}/enrolment/join.json`,
  /** Endpoints added with `cluster join`. */
  operatorEndpoints: `${STATE}/enrolment/directed.json`,
  init: `${STATE}/init`,
  events: `${STATE}/init/events.jsonl`,
  membership: `${STATE}/membership/membership.json`,
  roles: `${STATE}/membership/roles.json`,
  settings: `${STATE}/membership/settings.json`,
  directory: `${STATE}/membership/directory.json`,
  relays: `${STATE}/membership/relays.json`,
  /** The machines that the cluster refuses, for the case that it is restored from a backup that does not know them. */
  removals: `${STATE}/membership/removals.json`,
  /** The newest owner documents about the configuration that this node has accepted. */
  configurationFloors: `${STATE}/membership/configuration-floors.json`,
  /** The serials of all owner documents that agent and signer have accepted, bound to a counter of the TPM. */
  acceptedDocuments: `${STATE}/membership/accepted-documents.json`,
  /** Exists once the cluster has removed this node. */
  removed: `${STATE}/membership/removed.json`,
  collateral: `${STATE}/collateral/collateral.json`,
  recoveryOrder: `${STATE}/recovery/order.json`,
  recoveryFailure: `${STATE}/recovery/failure.txt`,
  resetOrder: `${STATE}/reset/order.json`,
  /** Certificates of owners with which this node has taken a backup. */
  usedBackupCertificates: `${STATE}/backup/used`,
  /** The newest schedule of backups that this node has followed. */
  newestBackupSchedule: `${STATE}/backup/schedule.json`,
  /** Measurements of the disks and databases of this node over the last days. */
  growth: `${STATE}/growth/growth.json`,
  /** Backups that this node has taken on schedule. */
  backups: `${STATE}/backups`,
  credentials: `${STATE}/credentials`,
  /** TLS key of the join service and the curator, which do not get the machine key. */
  curatorKey: `${STATE}/credentials/curator.key`,
  curatorCert: `${STATE}/credentials/curator.crt`,
  ca: `${STATE}/ca`,
  /** Two generations of the keys that control planes share (internal/keyset); absent before the first rotation. */
  rotation: `${STATE}/keys/${ROTATION_FILE}`,
  /** New keys that this control plane has created and no owner has signed yet. They are not distributed. */
  newKeys: `${STATE}/keys/new.json`,
  /** The secret for disk shares; absent in clusters of earlier releases. */
  diskShares: `${STATE}/keys/${DISK_SHARES_FILE}`,
  /** The stage of the key rotation that this node has completed, and the newest owner documents that it has seen. */
  keysStage: `${STATE}/keys/stage.json`,
  etcdData: `${STATE}/etcd-state/data/member`,
  store: `${STATE}/store`,
  /** Volumes of pods. */
  kubelet: '/var/lib/kubelet',
  /** Images of containerd. */
  images: '/var/lib/containerd',
  run: '/run/cluster',
  /** Parent of the file system in memory in which a backup is proved while the state disk is not encrypted. */
  backupProof: '/run/cluster/backup-proof',
} as const;

/** Files of the key rotation (bootstrapper/keyrotation). */
export const KEY_PATHS = {
  rotation: AGENT_PATHS.rotation,
  newKeys: AGENT_PATHS.newKeys,
  stage: AGENT_PATHS.keysStage,
  // Deleted last when the node loses the role of a control plane.
  lastKey: `${AGENT_PATHS.ca}/ca.key`,
} as const;
