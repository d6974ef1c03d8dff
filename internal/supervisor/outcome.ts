import { CodedError, describeError, errorChain, isAbort } from '../errors/index.ts';
import { RestartRequested } from './runnable.ts';

/** How a run ended. */
export type Outcome =
  | { readonly kind: 'done' }
  | { readonly kind: 'canceled' }
  | { readonly kind: 'restart'; readonly reason: string }
  | { readonly kind: 'dead'; readonly error: unknown };

/** Facts that are known when a run ends. */
export interface RunEnd {
  readonly signal: AbortSignal;
  readonly saidDone: boolean;
  readonly result: { readonly kind: 'returned' } | { readonly kind: 'threw'; readonly error: unknown };
}

/**
 * Classifies the end of a run. Returning, or throwing the signal's reason (bare or as a cause), after the signal fired
 * is `canceled`. Any other error is a failure, even while the run is being stopped, because this error may be the
 * reason why its group is stopped.
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

/** Log fields of a failure: the error chain, and the stack of an error without code. */
export function describeFailure(error: unknown): { readonly error: string; readonly stack?: string } {
  const unexpected = Error.isError(error) && !(error instanceof CodedError) ? error.stack : undefined;
  return { error: describeError(error), ...(unexpected === undefined ? {} : { stack: unexpected }) };
}
