import type { JoinProblem, JoinStatus } from './join-status.ts';

/**
 * One line for `systemctl status`: the fingerprint of the machine, and why it is not a member yet. Without the time of the last
 * attempt, so that it changes only when the reason does.
 */
export function unitStatus(fingerprint: string, status: JoinStatus): string {
  const reason = reasonOf(status);
  return `fingerprint ${fingerprint}${reason === '' ? '' : `; ${reason}`}`;
}

function reasonOf(status: JoinStatus): string {
  if (status.kind === 'asking') {
    const { endpoints, lastError } = status;
    return `asks ${endpoints.join(', ')} to let it join${lastError === undefined ? '' : `; last error: ${problemText(lastError)}`}`;
  }
  if (status.kind === 'waiting') return `waits for cluster ${status.clusterName}: ${status.message}`;
  if (status.kind === 'refused') return `refused by ${status.endpoint}: ${problemText(status.problem)}`;
  if (status.kind === 'admitted') return `admitted to cluster ${status.clusterId} as ${status.nodeName}`;
  return '';
}

function problemText({ code, message, fix }: JoinProblem): string {
  return `${code}: ${message}. Fix: ${fix}`;
}
