import { takerOf, type BackupHeader } from '../../internal/backup/index.ts';
import { printable } from '../../internal/printable/index.ts';

/** A header for `--output json`. */
export function viewOf(header: BackupHeader): Record<string, unknown> {
  const { clusterId, clusterName, epoch, takenMs, revisions, versions, certificate } = header;
  const { recipients, owner } = certificate;
  const nodeId = takerOf(header);
  const takenAt = new Date(takenMs).toISOString();
  return { clusterId, clusterName, epoch, takenAt, revisions, versions, nodeId, recipients, owner };
}

/** A header for people. */
export function renderHeader(header: BackupHeader): string {
  const { clusterId, clusterName, epoch, takenMs, revisions, versions, certificate } = header;
  return [
    `Backup of cluster ${printable(clusterName)} (${printable(clusterId)}), epoch ${epoch}`,
    `Taken:      ${new Date(takenMs).toISOString()} by ${printable(takerOf(header))}`,
    `Revisions:  state etcd ${revisions.state}, Kubernetes etcd ${revisions.kubernetes}`,
    `Versions:   agent ${printable(versions.agent)}, Kubernetes ${printable(versions.kubernetes)}`,
    `Owner:      ${printable(certificate.owner)}`,
    ...certificate.recipients.map((recipient) => `Opened by:  ${printable(recipient)}`),
  ].join('\n');
}
