/** The roles of operators, with increasing rights. */
export const OPERATOR_ROLES = ['viewer', 'operator', 'owner'] as const;
/** See `OPERATOR_ROLES`. */
export type OperatorRole = (typeof OPERATOR_ROLES)[number];

/**
 * The group of a person with this role in the certificate for the Kubernetes API. kubeadm binds the group of owners to cluster-admin
 * (phase upload-config); the control planes bind the others (bootstrapper/kubernetes/controlplane).
 */
export const KUBERNETES_GROUPS: Readonly<Record<OperatorRole, string>> = {
  viewer: 'cluster:viewers',
  operator: 'cluster:operators',
  owner: 'kubeadm:cluster-admins',
};
