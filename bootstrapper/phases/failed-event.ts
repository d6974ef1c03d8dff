import { describeError, findCoded } from '../../internal/errors/index.ts';
import { PhasesError, type PhasesErrorCode } from './errors.ts';
import type { PhaseEvent } from './phase-event.ts';

/** What programs say when the machine, and not what they were asked to do, is the cause (strerror(3)). */
const WORDS: readonly { readonly says: RegExp; readonly code: PhasesErrorCode }[] = [
  { says: /no space left on device|disk quota exceeded|ENOSPC/i, code: 'phases-disk-full' },
  { says: /read-only file ?system|EROFS/i, code: 'phases-read-only' },
  { says: /address already in use|EADDRINUSE/i, code: 'phases-port-in-use' },
];

/**
 * A failure as the owner is told of it. The outermost code says what was being done, and is the answer unless a program's
 * own last words name a cause that lies below it.
 */
export function failedEvent(
  phase: Extract<PhaseEvent, { kind: 'failed' }>['phase'],
  error: unknown,
): Extract<PhaseEvent, { kind: 'failed' }> {
  const message = describeError(error);
  const coded = findCoded(error);
  const below = WORDS.find(({ says }) => says.test(message));
  const cause =
    below !== undefined && coded?.code.startsWith('preflight-') !== true
      ? new PhasesError(below.code, message)
      : coded;
  const { code, fix, retryable } = cause ?? {
    code: 'internal',
    fix: 'Look into the log of bootstrapper.service.',
    retryable: true,
  };
  return { kind: 'failed', phase, code, message, fix, retryable };
}
