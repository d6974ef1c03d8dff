import { describeError, findCoded } from '../../internal/errors/index.ts';
import { PhasesError, type PhasesErrorCode } from './errors.ts';
import type { PhaseEvent } from './phase-event.ts';

/**
 * Error texts of programs for failures that the machine causes, not the task of the program (strerror(3)).
 */
const MACHINE_FAULTS: readonly { readonly text: RegExp; readonly code: PhasesErrorCode }[] = [
  { text: /no space left on device|disk quota exceeded|ENOSPC/i, code: 'phases-disk-full' },
  { text: /read-only file ?system|EROFS/i, code: 'phases-read-only' },
  { text: /address already in use|EADDRINUSE/i, code: 'phases-port-in-use' },
];

/**
 * The event of a failed phase. It has the code of the outermost error, unless the output of a program names a cause in the
 * machine itself, like a full disk.
 */
export function failedEvent(
  phase: Extract<PhaseEvent, { kind: 'failed' }>['phase'],
  error: unknown,
): Extract<PhaseEvent, { kind: 'failed' }> {
  const message = describeError(error);
  const coded = findCoded(error);
  const machineFault = MACHINE_FAULTS.find(({ text }) => text.test(message));
  const cause =
    machineFault !== undefined && coded?.code.startsWith('preflight-') !== true
      ? new PhasesError(machineFault.code, message)
      : coded;
  const { code, fix, retryable } = cause ?? {
    code: 'internal',
    fix: 'Look at `journalctl -u bootstrapper` on the machine.',
    retryable: true,
  };
  return { kind: 'failed', phase, code, message, fix, retryable };
}
