import { takerOf, type BackupHeader } from '../../internal/backup/index.ts';
import { printable } from '../../internal/printable/index.ts';

/** A header for `--output json`. */
export function viewOf(header: BackupHeader): Record<string, unknown> {
  const { clusterId, clusterName, epoch, takenMs, revisions, versions, certificate } = header;
  const { recipients, owner } = certificate;
  const nodeId = takerOf(header);
  const takenAt = new Date(takenMs).toISOString();
  const hasWorkspace = hasWorkspacePart(header);
  return {
    ...{ clusterId, clusterName, epoch, takenAt, revisions, versions, nodeId, recipients, owner },
    hasWorkspace,
  };
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
    hasWorkspacePart(header)
      ? 'Workspace:  in the backup'
      : 'Workspace:  not in the backup; a restore needs a copy of the workspace of the first owner',
    ...certificate.recipients.map((recipient) => `Opened by:  ${printable(recipient)}`),
  ].join('\n');
}

/** Whether the backup has the part from which a restore creates the workspace. */
function hasWorkspacePart({ certificate }: BackupHeader): boolean {
  return certificate.workspaceSha256 !== undefined;
}
