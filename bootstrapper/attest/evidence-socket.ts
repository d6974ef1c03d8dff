import { dirname } from 'node:path';
import { JOIN_CONTEXT } from '../../internal/atls/index.ts';
import { createEvidenceSocketServer } from '../../internal/atls/evidencesocket/index.ts';
import { untilAborted } from '../../internal/cleanup/index.ts';
import type { Clock } from '../../internal/clock/index.ts';
import type { CommandRunner } from '../../internal/exec/index.ts';
import type { FilePort } from '../../internal/file/index.ts';
import type { Runnable } from '../../internal/supervisor/index.ts';
import { ensureSystemUser } from '../units/index.ts';
import type { MachineEvidence } from './machine-evidence.ts';

const COMMAND_MS = 30_000;

/** The evidence socket and who may connect to it. */
export interface EvidenceSocketOptions {
  /** Path; its directory is created with mode 0750 for root and the group. */
  readonly path: string;
  /** User and group of the join service. */
  readonly user: string;
}

/** Serves the evidence socket for the join service until its signal fires. */
export function evidenceSocketRunnable(
  options: EvidenceSocketOptions,
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
    // Right after boot, not at the first request: programs that read the TPM without the agent must see the lock, too.
    await evidence.mirrorLock();
    await createSocketDirectory(options, commands, signal);
    await using _server = await createEvidenceSocketServer({
      path: options.path,
      context: JOIN_CONTEXT,
      issuers: evidence.issuers,
      files,
      clock,
      log: scope.log,
    });
    scope.healthy();
    scope.waiting('requests of the join service');
    await untilAborted(signal);
  };
}

/** install(1) creates the directory with its owner and mode, so that it never exists with others. */
async function createSocketDirectory(
  { path, user }: EvidenceSocketOptions,
  commands: CommandRunner,
  signal: AbortSignal,
): Promise<void> {
  await ensureSystemUser(commands, { user, description: 'join service' }, signal);
  const argv = ['install', '-d', '-m', '0750', '-o', 'root', '-g', user, dirname(path)] as const;
  await commands.run({ argv, timeoutMs: COMMAND_MS, signal });
}
