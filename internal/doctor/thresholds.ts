import { DAY_MS, HOUR_MS, MINUTE_MS } from '../clock/index.ts';

/**
 * A clock that differs by more than this from the clock of the workstation, or of the control plane that receives the heartbeats of the
 * node, is not synchronized. A heartbeat is delayed by a few seconds at most, so its delay is no difference.
 */
export const CLOCK_WARNING_MS = MINUTE_MS;
/** The share of its quota above which a database causes a warning. */
export const DATABASE_WARNING_SHARE = 0.8;
/** etcd's own recommendation for the disk (etcd.io/docs, "Hardware recommendations"). */
export const FSYNC_WARNING_MS = 10;
/** etcd's heartbeat interval: a round trip must be shorter. Between other nodes, such a distance is seldom wanted either. */
export const ROUND_TRIP_WARNING_MS = 100;
/**
 * Agents report shorter round trips between nodes as this. On a machine whose processors are all busy, round trips of a local
 * network vary between 1 and 4 ms, and each change of a figure is a write to etcd.
 */
export const ROUND_TRIP_FLOOR_MS = 5;
/** A database with more free pages than this share, and larger than the minimum, is worth a defragmentation. */
export const UNUSED_WARNING_SHARE = 0.5;
/** See `UNUSED_WARNING_SHARE`. */
export const UNUSED_MIN_BYTES = 256 * 1024 ** 2;
/** A learner that is not promoted after this time is stuck. */
export const LEARNER_WARNING_MS = 10 * MINUTE_MS;
/** The members of an etcd are compared every hour: after this time, several comparisons have failed. */
export const CONTENT_WARNING_MS = 3 * HOUR_MS;
/** The kubelet evicts pods when less than 10 % is free (nodefs.available). Above 85 % use it deletes unused images. */
export const SPACE_WARNING_SHARE = 0.15;
/** See `SPACE_WARNING_SHARE`. */
export const SPACE_ERROR_SHARE = 0.1;
/**
 * Gates ignore a disk with more free space than this, whatever its share is: as much as the quotas of both etcd clusters together.
 */
export const GATE_SPACE_BYTES = 5 * 1024 ** 3;
/** A disk that is full in a week, at its growth of the last days, needs somebody before it is. */
export const GROWTH_WARNING_MS = 7 * DAY_MS;
/** The kubelet evicts pods below 5 % (nodefs.inodesFree). */
export const INODES_WARNING_SHARE = 0.1;
/** See `INODES_WARNING_SHARE`. */
export const INODES_ERROR_SHARE = 0.05;
/** Certificates are renewed when a third of their lifetime is left: below a sixth, the renewal is failing. */
export const RENEWAL_FAILING_SHARE = 1 / 6;
/** No warning about a certificate is given earlier than this time before the certificate expires. */
export const CERTIFICATE_WARNING_MS = DAY_MS;
/** A CA has to be rotated by an operator, who needs time. */
export const CA_WARNING_MS = 90 * DAY_MS;
/** Each command renews the operator's own certificate and kubeconfig in time, so a warning means that this fails. */
export const CREDENTIALS_WARNING_MS = 7 * DAY_MS;
/** An owner needs time to sign again. */
export const DOCUMENT_WARNING_MS = 30 * DAY_MS;
/** In the last two months, a minor version of Kubernetes gets only fixes of the worst faults (kubernetes.io/releases/patch-releases). */
export const SUPPORT_WARNING_MS = 60 * DAY_MS;
/** AMD and Intel issue collateral for about 30 days and more. */
export const COLLATERAL_WARNING_MS = 7 * DAY_MS;
/**
 * The extra time before a backup counts as missed: for taking and proving a backup, and for a control plane that is
 * down for a short time.
 */
export const BACKUP_GRACE_MS = 10 * MINUTE_MS;
/** The maximum age of the newest backup, in periods. If it is older, a backup was missed. */
export const BACKUP_WARNING_PERIODS = 2;
/** Above this many periods, several backups were missed. */
export const BACKUP_ERROR_PERIODS = 4;
/** A phase of a key rotation takes minutes, so a phase that takes longer than this is stuck. */
export const ROTATION_WARNING_MS = HOUR_MS;
/** Join requests that were seen before this time do not count. */
export const JOIN_RECENT_MS = DAY_MS;
/** A pod that was created within this time may still start. */
export const POD_START_MS = 5 * MINUTE_MS;
/** A pod for which Kubernetes reports a failure that waiting does not cure is not judged earlier: some failures pass while it starts. */
export const POD_FAILING_MS = 30_000;
/** The deletion of a namespace takes as long as its pods need to end. */
export const NAMESPACE_DELETION_MS = 5 * MINUTE_MS;
/** Objects that are left only because of their finalizers usually go within seconds. */
export const FINALIZER_MS = 30_000;
