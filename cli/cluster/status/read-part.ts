import { CodedError, describeError } from '../../../internal/errors/index.ts';
import type { CommandContext } from '../../app/command.ts';
import type { Part } from './status-view.ts';

/** Reads a part of the status; an error becomes part of the result, so that the other parts are still shown. */
export async function readPart<T>(
  { signal }: Pick<CommandContext, 'signal'>,
  read: () => Promise<T>,
): Promise<Part<T>> {
  try {
    return { ok: true, value: await read() };
  } catch (error) {
    signal.throwIfAborted();
    return { ok: false, error: describeError(error), codes: codesOf(error) };
  }
}

/** The codes of an error and of all its causes. */
function codesOf(error: unknown): readonly string[] {
  if (!(error instanceof Error)) return [];
  const own = error instanceof CodedError ? [String(error.code)] : [];
  return [...own, ...codesOf(error.cause)];
}
