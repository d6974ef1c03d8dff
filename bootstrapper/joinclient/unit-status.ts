import { describeError } from '../../internal/errors/index.ts';
import { follow, when, type Readable } from '../../internal/event/index.ts';
import type { Logger } from '../../internal/logging/index.ts';
import type { Runnable } from '../../internal/supervisor/index.ts';
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
  // A machine that is refused learns only the code; the operators see the reason.
  const what = message === code ? code : `${code}: ${message}`;
  const elsewhere = `run \`cluster explain\` with the name or address of this machine at a workstation`;
  return `${what}. Fix: ${fix === '' ? elsewhere : fix}`;
}

/** What the status line of the agent's unit depends on, and where it goes. */
export interface UnitStatusPorts {
  readonly fingerprint: string;
  /** True once the start of the agent has sent its line, which would otherwise replace a newer one. */
  readonly isReady: Readable<boolean>;
  readonly joinClient: { readonly status: Readable<JoinStatus> };
  /** A member calls the join service only to renew its certificates, so its line does not follow these calls. */
  readonly isMember: () => boolean;
  /** Sends the line to systemd. */
  readonly onStatus: (status: string) => Promise<void>;
  readonly log: Logger;
}

/**
 * Keeps the status line of the unit up to date, after the start of the agent has sent the fingerprint. A line that cannot be sent, on a
 * machine that is too busy, restarts nothing: the next one tells more.
 */
export function unitStatusRunnable(ports: UnitStatusPorts): Runnable {
  const { fingerprint, isReady, joinClient, isMember, onStatus, log } = ports;
  return async (scope) => {
    scope.healthy();
    await when(isReady, Boolean, scope.signal);
    let told = unitStatus(fingerprint, { kind: 'idle' });
    for await (const status of follow(joinClient.status, scope.signal)) {
      const text = unitStatus(fingerprint, isMember() ? { kind: 'idle' } : status);
      if (text === told) continue;
      try {
        await onStatus(text);
        told = text;
      } catch (error) {
        scope.signal.throwIfAborted();
        log.warn('status not sent to systemd', { error: describeError(error) });
      }
    }
  };
}
