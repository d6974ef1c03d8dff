import { dirname } from 'node:path';
import { JOIN_CONTEXT } from '../../internal/atls/index.ts';
import { createEvidenceSocketServer, EVIDENCE_SOCKET } from '../../internal/atls/evidencesocket/index.ts';
import { untilAborted } from '../../internal/cleanup/index.ts';
import type { CommandRunner } from '../../internal/exec/index.ts';
import type { SystemPorts } from '../../internal/platform/index.ts';
import type { Runnable } from '../../internal/supervisor/index.ts';
import { ensureSystemUser, JOINSERVICE_USER } from '../units/index.ts';
import type { MachineEvidence } from './machine-evidence.ts';

const COMMAND_MS = 30_000;

/** Serves the evidence socket for the join service until its signal fires. */
export function evidenceSocketRunnable(
  ports: Pick<SystemPorts, 'files' | 'commands' | 'clock'> & { readonly evidence: MachineEvidence },
): Runnable {
  const { evidence, files, commands, clock } = ports;
  return async (scope) => {
    const { signal } = scope;
    // The node lock is copied to the TPM right after boot, not at the first request, because programs that read
    // the TPM without the agent must see it too.
    await evidence.mirrorLock();
    await createSocketDirectory(commands, signal);
    await using _server = await createEvidenceSocketServer({
      ...{ path: EVIDENCE_SOCKET, context: JOIN_CONTEXT, issuers: evidence.issuers },
      ...{ files, clock, log: scope.log },
    });
    scope.healthy();
    scope.waiting('requests of the join service');
    await untilAborted(signal);
  };
}

/**
 * Creates the directory of the socket with install(1), which sets owner and mode at the creation. The
 * directory never exists with other permissions.
 */
async function createSocketDirectory(commands: CommandRunner, signal: AbortSignal): Promise<void> {
  const user = JOINSERVICE_USER; // also the name of its group
  await ensureSystemUser(commands, { user, description: 'join service' }, signal);
  const argv = ['install', '-d', '-m', '0750', '-o', 'root', '-g', user, dirname(EVIDENCE_SOCKET)] as const;
  await commands.run({ argv, timeoutMs: COMMAND_MS, signal });
}
