/**
 * The name of the secret from which signers derive the cluster shares of state disks: 32 bytes, hex. It has no generations: a rotation does
 * not replace it, because every disk that opens with a share of it would stay closed. Clusters of earlier releases have none.
 */
export const DISK_SHARES_FILE = 'disk-shares.key';
