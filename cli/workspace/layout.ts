import { join } from 'node:path';

/** The files of a workspace, absolute. */
export interface WorkspaceLayout {
  readonly root: string;
  /** Written by the operator. */
  readonly config: string;
  /** Ed25519, PKCS#8 PEM, 0600. Its public half is in the provisioning of every machine. */
  readonly ownerKey: string;
  /** 0600. All other secrets of the cluster are derived from it; it is never sent. */
  readonly masterSecret: string;
  /** What this program knows about the cluster. 0600: it carries the request of an init that is under way. */
  readonly state: string;
  readonly kubeconfig: string;
  /** The owner's certificate once it was renewed; may be lost. */
  readonly ownerCert: string;
  /** Where curators were last seen; proves nothing, and may be lost. */
  readonly curators: string;
  /** An operator's own key and certificate, where the workspace is not the owner's. 0600. */
  readonly identity: string;
  readonly lock: string;
}

export function layoutOf(root: string): WorkspaceLayout {
  return {
    root,
    config: join(root, 'cluster.yaml'),
    ownerKey: join(root, 'owner-key.pem'),
    masterSecret: join(root, 'master-secret.json'),
    state: join(root, 'state.json'),
    kubeconfig: join(root, 'kubeconfig'),
    ownerCert: join(root, 'owner.crt'),
    curators: join(root, 'curators.json'),
    identity: join(root, 'identity.json'),
    lock: join(root, '.lock'),
  };
}
