/**
 * Keys and certificates that the agent writes to disk: the keys and certificates in a join ticket, the CA of a new
 * cluster, and the TLS key of the join service and the curator.
 */
export { ensureClusterCa } from './cluster-ca.ts';
export {
  curatorCertificateTimes,
  ensureCuratorCredentials,
  removeCuratorCredentials,
} from './curator-credentials.ts';
export { createMembershipUpdates, type UpdateMembership } from './membership-updates.ts';
export { readKnownClusterCa } from './known-cluster-ca.ts';
export {
  installControlPlaneKeys,
  installDiskSharesKey,
  installTicketKeys,
  installKubeletCertificates,
  installKubeletClientsCa,
  installKubeletServersCa,
  installTicket,
  readDiskSharesKey,
  membershipFromTicket,
  verifyKubeletServersCa,
  writeCredentials,
} from './install-ticket.ts';
