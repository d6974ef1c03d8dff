import { join } from 'node:path';

/** The files of a workspace, absolute. */
export interface WorkspaceLayout {
  readonly root: string;
  /** Written by the operator. */
  readonly config: string;
  /** Ed25519, PKCS#8 PEM, 0600. The provisioning file of every machine contains its public key. */
  readonly ownerKey: string;
  /** 0600. All other secrets of the cluster are derived from it. It is never sent. */
  readonly masterSecret: string;
  /** Progress and results. 0600: contains the request of an unfinished init. */
  readonly state: string;
  readonly kubeconfig: string;
  /** The renewed certificate of the owner; can be renewed again if lost. */
  readonly ownerCert: string;
  /** The CAs of the cluster and of API servers, once an owner has replaced those in the state or the grant. */
  readonly clusterCa: string;
  /** Addresses of the curators seen last: only a hint. */
  readonly curators: string;
  /** Key and grant of an operator, in a workspace without an owner key. 0600. */
  readonly identity: string;
  /** Directory: which machine this workspace expects under each node name. */
  readonly machines: string;
  /** Written by the operator: user names and passwords of registries, in Docker's format. 0600. */
  readonly registryCredentials: string;
  /** Written by the operator: the access key of the S3-compatible store for copies of backups, in the format of AWS. 0600. */
  readonly backupCredentials: string;
  /** The configuration in the backup that was restored last, if cluster.yaml had other settings. */
  readonly savedConfig: string;
  readonly lock: string;
}

/** Paths of the files of the workspace in a directory. */
export function layoutOf(root: string): WorkspaceLayout {
  return {
    root,
    config: join(root, 'cluster.yaml'),
    ownerKey: join(root, 'owner-key.pem'),
    masterSecret: join(root, 'master-secret.json'),
    state: join(root, 'state.json'),
    kubeconfig: join(root, 'kubeconfig'),
    ownerCert: join(root, 'owner.crt'),
    clusterCa: join(root, 'cluster-ca.json'),
    curators: join(root, 'curators.json'),
    identity: join(root, 'identity.json'),
    machines: join(root, 'machines'),
    registryCredentials: join(root, 'registry-credentials.json'),
    backupCredentials: join(root, 'backup-credentials'),
    savedConfig: join(root, 'configuration-of-backup.json'),
    lock: join(root, '.lock'),
  };
}
