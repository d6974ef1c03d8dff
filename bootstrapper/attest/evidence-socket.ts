import { createEvidenceSocketServer, JOIN_CONTEXT } from '../../internal/atls/evidencesocket/index.ts';
import { untilAborted } from '../../internal/cleanup/index.ts';
import type { Clock } from '../../internal/clock/index.ts';
import type { CommandRunner } from '../../internal/exec/index.ts';
import type { FilePort } from '../../internal/file/index.ts';
import type { Runnable } from '../../internal/supervisor/index.ts';
import type { MachineEvidence } from './machine-evidence.ts';

const COMMAND_MS = 30_000;

export interface EvidenceSocketOptions {
  /** Its directory is made here, 0750, for root and the group. */
  readonly path: string;
  /** User and group of the join service; made when missing (sysusers.d(5)). */
  readonly user: string;
}

/** Serves the evidence socket for the join service as long as the agent lives. */
export function evidenceSocketRunnable(
  places: EvidenceSocketOptions,
  ports: {
    readonly evidence: MachineEvidence;
    readonly files: FilePort;
    readonly commands: CommandRunner;
    readonly clock: Clock;
  },
): Runnable {
  const { evidence, files, commands, clock } = ports;
  return async (scope) => {
    const { signal } = scope;
    // Right after boot and not at the first question: also whoever asks the TPM past the agent is to see the lock.
    await evidence.mirrorLock();
    await prepareFolder(places, commands, signal);
    await using _server = await createEvidenceSocketServer({
      path: places.path,
      context: JOIN_CONTEXT,
      issuers: evidence.issuers,
      files,
      clock,
      log: scope.log,
    });
    scope.healthy();
    scope.waiting('questions of the join service');
    await untilAborted(signal);
  };
}

/** One program makes the directory with owner and mode, so that it is never there with others. */
async function prepareFolder(
  { path, user }: EvidenceSocketOptions,
  commands: CommandRunner,
  signal: AbortSignal,
): Promise<void> {
  const folder = path.slice(0, path.lastIndexOf('/'));
  const options = { timeoutMs: COMMAND_MS, signal };
  const account = `u ${user} - "join service (cluster)" /nonexistent`;
  await commands.run({ argv: ['systemd-sysusers', '--inline', account], ...options });
  await commands.run({ argv: ['install', '-d', '-m', '0750', '-o', 'root', '-g', user, folder], ...options });
}
