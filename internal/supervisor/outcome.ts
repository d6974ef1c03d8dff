import { CodedError, describeError, errorChain, isAbort } from '../errors/index.ts';
import { RestartRequested } from './runnable.ts';

/** How one life of a runnable ended. */
export type Outcome =
  | { readonly kind: 'done' }
  | { readonly kind: 'canceled' }
  | { readonly kind: 'restart'; readonly reason: string }
  | { readonly kind: 'dead'; readonly error: unknown };

/** What is known at the end of a life. */
export interface RunEnd {
  readonly signal: AbortSignal;
  readonly saidDone: boolean;
  readonly result: { readonly kind: 'returned' } | { readonly kind: 'threw'; readonly error: unknown };
}

/**
 * Abort is not failure: returning, or throwing the reason (bare or as a cause), after the signal fired
 * is `canceled`. Any other error is a death, also while stopping: it may be the reason why it was stopped.
 */
export function outcomeOf({ signal, saidDone, result }: RunEnd): Outcome {
  if (result.kind === 'returned') {
    if (saidDone) return { kind: 'done' };
    if (signal.aborted) return { kind: 'canceled' };
    return { kind: 'dead', error: new Error('returned without done()') };
  }
  const { error } = result;
  if (isAbort(error, signal)) return { kind: 'canceled' };
  for (const each of errorChain(error)) {
    if (!(each instanceof RestartRequested)) continue;
    return signal.aborted ? { kind: 'canceled' } : { kind: 'restart', reason: each.message };
  }
  return { kind: 'dead', error };
}

/** What the log says about a death: the chain, and the stack of what nobody foresaw. */
export function describeFailure(error: unknown): { readonly error: string; readonly stack?: string } {
  const unforeseen = Error.isError(error) && !(error instanceof CodedError) ? error.stack : undefined;
  return { error: describeError(error), ...(unforeseen === undefined ? {} : { stack: unforeseen }) };
}
